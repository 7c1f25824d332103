//! `tamis explore`: serves the page that chooses, tries and looks inside filters.

use anyhow::{Result, bail};

use crate::args::Explore;
use crate::errors::failure;
use crate::serve::{File, Server};
use crate::{files, output};

/// The page, as `cargo xtask web` builds it.
const SITE: &[File] = include!(concat!(env!("OUT_DIR"), "/site.rs"));

pub(crate) fn run(args: &Explore) -> Result<()> {
    let mut query = String::new();
    if let Some(path) = &args.filter {
        // The browser reads the file again with each load: a pipe could not be.
        if files::is_dash(path) || path.exists() && !path.is_file() {
            bail!("{}: not a regular file", files::name(path));
        }
        files::open(path, false)?;
        let name = path.file_name().map_or_else(String::new, |name| name.display().to_string());
        query = format!("?open={}#open", percent_encoded(&name));
    }
    let server = Server::bind(args.port, SITE, args.filter.clone())
        .map_err(|error| failure(format_args!("port {}", args.port), &error))?;
    output::print(format_args!("http://127.0.0.1:{}/{query}", server.port()))?;
    Ok(server.run()?)
}

/// Encodes a text for the query of an address.
fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(percent_encoded("a b&é.tamis"), "a%20b%26%C3%A9.tamis");
    }

    #[test]
    fn the_page_is_embedded() {
        for path in ["/index.html", "/main.js", "/tamis/core_bg.wasm"] {
            assert!(SITE.iter().any(|file| file.path == path), "{path}");
        }
    }
}
