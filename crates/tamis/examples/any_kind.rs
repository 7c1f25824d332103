//! Chooses the kind of a filter at run time, by its name.
//!
//! `cargo run -p tamis --example any_kind [KIND...]`

use tamis::{AnyFilter, Error, Keyed, Kind};

fn main() -> Result<(), Error> {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = ["bloom", "quotient", "ribbon"].map(String::from).to_vec();
    }
    for name in names {
        show(name.parse()?)?;
    }

    // An unknown name is an error.
    let unknown = "blom".parse::<Kind>().map_err(Error::from);
    assert!(matches!(unknown, Err(Error::Unknown(_))));
    Ok(())
}

fn show(kind: Kind) -> Result<(), Error> {
    let fruit = ["apple", "pear", "plum"];
    let mut filter = Keyed::<AnyFilter>::builder(kind).fpr(0.001).build(fruit)?;
    assert!(fruit.iter().all(|key| filter.contains(key)));

    // Every operation is there. One that the kind lacks is an error, and changes nothing.
    match filter.remove("plum") {
        Ok(removed) => println!("{kind}: removed plum: {removed}"),
        Err(error @ Error::Unsupported { .. }) => println!("{error}"),
        Err(error) => return Err(error),
    }

    // The bytes are those of a `.tamis` file, which states the kind.
    let bytes = filter.to_bytes()?;
    assert_eq!(tamis::peek(&bytes)?.kind, kind);
    let again = Keyed::<AnyFilter>::from_bytes(&bytes)?;
    assert!(again.kind() == kind && again.contains("apple") && again.contains("pear"));
    println!("{kind}: {} bytes", bytes.len());
    Ok(())
}
