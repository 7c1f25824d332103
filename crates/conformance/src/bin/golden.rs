//! Writes the golden files that are missing. It never overwrites one: they are kept for ever.

use std::io::Write;

use conformance::files::{golden_path, make_golden, testdata};

macro_rules! golden {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        [$( (tamis::Kind::$type, make_golden::<tamis::filters::$type> as fn() -> Vec<u8>), )*]
    };
}

fn main() -> std::io::Result<()> {
    std::fs::create_dir_all(testdata("golden"))?;
    for (kind, make) in tamis::registry!(golden) {
        let path = golden_path(kind);
        match std::fs::File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(&make())?;
                println!("made {}", path.display());
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
