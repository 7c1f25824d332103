//! With the feature `explore`: lists the files of the page, which `cargo xtask web` builds, for embedding.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_EXPLORE").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=TAMIS_SITE");
    let site = env::var_os("TAMIS_SITE").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/web/site"),
        PathBuf::from,
    );
    println!("cargo::rerun-if-changed={}", site.display());
    let mut files = Vec::new();
    if !site.join("index.html").is_file() {
        println!("cargo::error=the feature `explore` embeds the page: run `cargo xtask web` first");
        return;
    }
    collect(&site, "", &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for (name, path) in files {
        writeln!(list, "    File {{ path: {name:?}, bytes: include_bytes!({path:?}) }},")
            .expect("a string takes all text");
    }
    list.push_str("]\n");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("site.rs"), list).expect("OUT_DIR can be written");
}

/// Adds the files of a folder and of the folders in it, with their paths in addresses.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).expect("the page is a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
        let name = format!("{prefix}/{name}");
        if path.is_dir() {
            collect(&path, &name, files);
        } else {
            files.push((name, fs::canonicalize(&path).expect("a file of the page")));
        }
    }
}
