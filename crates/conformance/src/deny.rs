//! The keys of a deny list are never false positives, and members are never denied.

use tamis::{BuildOptions, Deny, Error, HashId, KeyHasher, Settings, Shape};

use crate::keys::Form;
use crate::{Subject, stats, variants};

/// Checks that members pass, denied keys do not, and other keys pass at the stated rate.
pub fn denied_keys_never_pass<F: Subject + Deny>() {
    let hasher = KeyHasher::new(HashId::Fast, [91, 92]);
    for (keys, denied) in [(0, 100), (1, 1), (1000, 50_000), (20_000, 20_000)] {
        let members = Form::Integers.hashes(&hasher, 0, keys);
        let denied = Form::Integers.hashes(&hasher, 1 << 40, denied);
        let others = Form::Integers.hashes(&hasher, 1 << 50, 200_000);
        for fpr in [0.1, 0.004] {
            let fit = |keys| F::Shape::fit(keys, fpr);
            let options = BuildOptions::new().threads(2);
            let filter = F::build_denying(&options, fit, &members[..], &denied[..]);
            let filter = filter.expect("there is a shape");
            assert_eq!(filter.len(), keys);
            assert!(members.iter().all(|key| filter.contains(*key)));
            assert!(!denied.iter().any(|key| filter.contains(*key)));
            let passed = others.iter().filter(|key| filter.contains(**key)).count();
            let what = format!("{} with {} denied keys", F::KIND, denied.len());
            stats::check(&what, passed as u64, 200_000, filter.shape().fpr_at(keys));
        }
    }
}

/// Checks that a key on both lists is an error that names it.
pub fn a_key_on_both_lists_is_an_error<F: Subject + Deny>() {
    let hasher = KeyHasher::new(HashId::Fast, [93, 94]);
    let members = Form::Strings.hashes(&hasher, 0, 1000);
    let mut denied = Form::Strings.hashes(&hasher, 1 << 40, 5000);
    denied[4321] = members[123];
    for settings in variants::<F::Shape>() {
        assert_eq!(settings, Settings::default(), "this test does not cover the settings");
        let fit = |keys| F::Shape::fit(keys, 0.01);
        let built = F::build_denying(&BuildOptions::new(), fit, &members[..], &denied[..]);
        let Err(Error::Conflict { digest, .. }) = built else { panic!("{:?}", built.err()) };
        assert_eq!(digest, members[123].hi);
    }
}
