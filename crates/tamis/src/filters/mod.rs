//! The filters: one structure, one file, one name. The [registry](crate::registry) lists them.

pub(crate) mod common;

macro_rules! declare_filters {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        $( pub mod $file; )*
        $( pub use $file::*; )*
    };
}

crate::registry!(declare_filters);

/// The worked example of ARCHITECTURE.md. It is not in the registry.
#[cfg(test)]
pub mod toy;

#[cfg(test)]
mod tests {
    use super::toy::Toy;
    use crate::hash::{HashId, Key, KeyHash, KeyHasher};
    use crate::kind::Kind;
    use crate::shape::Shape;
    use crate::traits::{Build, Filter, Insert, Persist, sealed::Sealed};

    /// What the registry's line would generate.
    impl Sealed for Toy {
        fn sealed_kind(&self) -> Kind {
            Kind::Bloom
        }

        fn accepts(kind: Kind) -> bool {
            kind == Kind::Bloom
        }
    }

    #[test]
    fn the_worked_example_is_a_filter() {
        let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
        let keys: Vec<KeyHash> = (0..1000u64).map(|key| key.hash_with(&hasher)).collect();
        let shape = <Toy as Build>::Shape::fit(1000, 0.01).unwrap();
        let mut toy = Toy::build(shape.clone(), &keys[..]).unwrap();
        assert!(keys.iter().all(|key| toy.contains(*key)) && toy.insert(keys[0]).is_err());
        let others = (1000..101_000u64).filter(|key| toy.contains(key.hash_with(&hasher))).count();
        assert!((700..1300).contains(&others), "{others} of 100000 at 1 %");
        assert!(toy.validate().is_ok() && toy.bytes() == shape.figures().bytes);
        let container =
            crate::container::Container::new(&hasher, tamis_format::KeyForms::NONE, &toy);
        assert!(container.try_clone::<Toy>().unwrap() == toy);
    }

    #[test]
    fn the_worked_example_is_in_the_documentation() {
        let page = include_str!("../../../../ARCHITECTURE.md");
        assert!(page.contains(include_str!("toy.rs")), "ARCHITECTURE.md must quote filters/toy.rs");
    }
}
