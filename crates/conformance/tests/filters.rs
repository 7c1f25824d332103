//! Tests every registered filter against all its claims.

use tamis_conformance::suite;

tamis::registry!(suite);

#[test]
fn every_language_answers_alike() {
    tamis_conformance::contract::contract_is_kept();
}
