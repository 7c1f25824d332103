//! Writes the golden files that are missing. It never overwrites one, since they must not change. After a
//! new one it writes `testdata/contract`, whose older answers must not change either.

use std::io::Write;

use tamis_conformance::contract::{contract_path, write_contract};
use tamis_conformance::files::{
    VALUE_FILES, VARIANTS, denying_path, golden_path, make_denying, make_golden, make_values,
    testdata, variant_path,
};

macro_rules! golden {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        [$( (tamis::Kind::$type, make_golden::<tamis::filters::$type> as fn() -> Vec<u8>), )*]
    };
}

fn main() -> std::io::Result<()> {
    std::fs::create_dir_all(testdata("golden"))?;
    let mut made = !contract_path().exists();
    let kinds = tamis::registry!(golden).map(|(kind, make)| (golden_path(kind), make));
    let variants = VARIANTS.map(|(name, make, _)| (variant_path(name), make));
    let others = variants.into_iter().chain([(denying_path(), make_denying as _)]);
    for (path, make) in kinds.into_iter().chain(others) {
        match std::fs::File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(&make())?;
                println!("made {}", path.display());
                made = true;
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    for (name, value) in VALUE_FILES {
        match std::fs::File::create_new(variant_path(name)) {
            Ok(mut file) => file.write_all(&make_values(value))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    if made { write_contract() } else { Ok(()) }
}
