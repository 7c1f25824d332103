//! The import order of this crate's modules.

use std::fs;
use std::path::Path;

use crate::module_order::violations;

#[test]
fn modules_import_only_from_earlier_ones() {
    let order = [
        "error",
        "random",
        "store",
        "stats",
        "options",
        "shard",
        "manifest",
        "engine",
        "dictionary",
    ];
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(violations(&src, &order), Vec::<String>::new());
}

#[test]
fn violations_of_the_order_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("high")).unwrap();
    write("lib.rs", "mod low; mod high; pub use high::Thing; use crate::high::mod_a;");
    write("low.rs", "// crate::high is named in a comment\nuse other_crate::high;\n");
    write("high/mod.rs", "use crate::{low::{a, b}, high::c};\n");
    write("high/inner.rs", "use super::low;\nfn f() { crate::check!(); crate::low::a() }\n");
    assert_eq!(violations(folder.path(), &["low", "high"]), Vec::<String>::new());

    let found = |low: &str| {
        write("low.rs", low);
        violations(folder.path(), &["low", "high"])
    };
    let expected = ["low.rs: low must not import high"];
    for low in [
        "use crate::high::c;",
        "use crate::{\n    low::{a, b},\n    high::c,\n};",
        "use super::high::c;",
        "fn f() { crate::high::c() }",
        "const URL: &str = \"http://host\"; use crate::high;",
    ] {
        assert_eq!(found(low), expected, "{low}");
    }
    assert_eq!(found("use crate::Thing;"), ["low.rs: crate::Thing names no module"]);
    write("low.rs", "");
    assert_eq!(violations(folder.path(), &["low"]), ["module high is not in the order"]);
    assert_eq!(violations(folder.path(), &["low", "high", "gone"]), ["module gone does not exist"]);
}
