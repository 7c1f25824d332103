//! Tests every registered filter against all its claims.

use tamis_conformance::suite;

tamis::registry!(suite);

#[test]
fn every_language_answers_alike() {
    tamis_conformance::contract::contract_is_kept();
}

#[test]
fn attackers_do_no_harm_to_variants() {
    tamis_conformance::files::attackers_do_no_harm_to_variants();
}

#[test]
fn growing_spends_its_rate_at_every_size() {
    tamis_conformance::grow::growing_spends_its_rate_at_every_size();
}
