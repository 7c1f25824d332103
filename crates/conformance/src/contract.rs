//! Every language answers alike: the files and answers of `testdata/contract`.
//!
//! `contract.json` lists keys of every form, and for each of many filters the expected answer for each
//! key. The tests of the library and of every binding read it. `testdata/contract/README.md` describes
//! its fields.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tamis::{
    AnyFilter, Capability, Filter, HashId, Key, KeyForms, KeyHash, KeyHasher, Keyed, Kind,
};
use tamis::{BuildOptions, Sizing};

use crate::files::{VARIANTS, testdata};

/// Seed of the files. Never change it: the files must stay valid.
const SEED: u128 = 0x7461_6d69_7320_636f_6e74_7261_6374;
/// The false positive rate of the files.
const FPR: f64 = 0.01;
/// The capacity of the kinds that need one.
const CAPACITY: u64 = 200;

/// A key as the file states it.
#[derive(Clone, Debug)]
enum ContractKey {
    Text(String),
    Bytes(Vec<u8>),
    Integer(i128),
}

impl ContractKey {
    fn hash(&self, hasher: &KeyHasher) -> KeyHash {
        match self {
            Self::Text(text) => text.hash_with(hasher),
            Self::Bytes(bytes) => bytes.hash_with(hasher),
            Self::Integer(number) => number.hash_with(hasher),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "text": text }),
            Self::Bytes(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                json!({ "bytes": hex })
            }
            Self::Integer(number) => json!({ "integer": number.to_string() }),
        }
    }

    fn from_json(key: &Value) -> Self {
        if let Some(text) = key["text"].as_str() {
            return Self::Text(text.to_owned());
        }
        if let Some(hex) = key["bytes"].as_str() {
            let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            return Self::Bytes((0..hex.len()).step_by(2).map(pair).collect());
        }
        let integer = key["integer"].as_str().expect("a key is text, bytes or an integer");
        Self::Integer(integer.parse().expect("an integer"))
    }
}

/// Returns keys of every form, half of which are members.
fn make_keys() -> Vec<ContractKey> {
    let text = |text: String| ContractKey::Text(text);
    let mut keys: Vec<ContractKey> = (0..40).map(|key| text(format!("member {key}"))).collect();
    keys.extend((0..40).map(|key| text(format!("stranger {key}"))));
    let words = ["", "a", "é", "漢字", "🍎", "nul\0inside", " space ", "7", "-1"];
    keys.extend(words.map(|word| text(word.to_owned())));
    // Longer than every fast path of the hash function.
    keys.push(text("long ".repeat(100)));
    let bytes: [&[u8]; 4] = [&[0], &[0xff, 0xfe], &[7, 0, 0, 0, 0, 0, 0, 0], &[0x80; 33]];
    keys.extend(bytes.map(|bytes| ContractKey::Bytes(bytes.to_vec())));
    // The second and the fourth are the keys -2^63 and -1 as well: an integer is 64 bits.
    let limits = [i128::from(i64::MIN), 1 << 63, i128::from(i64::MAX), i128::from(u64::MAX)];
    keys.extend([0, 1, -1, 7, 255, 256].into_iter().chain(limits).map(ContractKey::Integer));
    keys.extend((1000..1040).map(|number| ContractKey::Integer(number * number)));
    keys
}

/// A filter that every language can build to the same bytes.
struct Recipe {
    kind: Kind,
    hash: HashId,
}

const RECIPES: [Recipe; 6] = [
    Recipe { kind: Kind::SplitBlockBloom, hash: HashId::Fast },
    Recipe { kind: Kind::Bloom, hash: HashId::Secure },
    Recipe { kind: Kind::Cuckoo, hash: HashId::Fast },
    Recipe { kind: Kind::CountingQuotient, hash: HashId::Secure },
    Recipe { kind: Kind::Ribbon, hash: HashId::Fast },
    Recipe { kind: Kind::Bloomier, hash: HashId::Fast },
];

fn seed() -> [u64; 2] {
    [(SEED >> 64) as u64, SEED as u64]
}

impl Recipe {
    fn path(&self) -> String {
        format!("contract/{}-{}.tamis", self.kind, self.hash.name())
    }

    /// Builds the filter of every other key; of a map, the value of key `i` is `i`.
    fn build(&self, keys: &[ContractKey]) -> Keyed<AnyFilter> {
        let hasher = KeyHasher::new(self.hash, seed());
        let members = keys.iter().enumerate().step_by(2);
        let sizing = match self.kind.can(Capability::Static) {
            true => Sizing::fpr(FPR),
            false => Sizing::fpr(FPR).capacity(CAPACITY),
        };
        let options = BuildOptions::new();
        let filter = if self.kind.can(Capability::Map) {
            let entries: Vec<_> =
                members.map(|(index, key)| (key.hash(&hasher), index as u64)).collect();
            self.kind.build_map(&sizing, &mut &entries[..], &options)
        } else {
            let hashes: Vec<_> = members.map(|(_, key)| key.hash(&hasher)).collect();
            self.kind.build(&sizing, &mut &hashes[..], &options)
        };
        let forms = KeyForms::BYTES.union(KeyForms::INTEGERS);
        Keyed::new(hasher, filter.expect("room for all keys")).with_key_forms(forms)
    }

    fn to_json(&self) -> Value {
        let mut recipe = json!({
            "hash": self.hash.name(),
            "seed": format!("{SEED:032x}"),
            "fpr": FPR,
            "members": "every other key, from the first",
        });
        if !self.kind.can(Capability::Static) {
            recipe["capacity"] = json!(CAPACITY);
        }
        if self.kind.can(Capability::Map) {
            recipe["values"] = json!("the index of the key");
        }
        recipe
    }
}

/// Returns what a file answers to all keys.
fn answers(path: &str, filter: &Keyed<AnyFilter>, keys: &[ContractKey]) -> Value {
    let hashes: Vec<_> = keys.iter().map(|key| key.hash(filter.hasher())).collect();
    let answers: String =
        hashes.iter().map(|hash| if filter.contains_hash(*hash) { '1' } else { '0' }).collect();
    let mut entry = json!({
        "path": path,
        "kind": filter.kind().name(),
        "len": filter.filter().len(),
        "contains": answers,
    });
    if filter.kind().can(Capability::Count) {
        let counts: Result<Vec<_>, _> =
            hashes.iter().map(|hash| filter.filter().count(*hash)).collect();
        entry["counts"] = json!(counts.expect("a kind that counts"));
    }
    if filter.kind().can(Capability::Map) {
        let values: Result<Vec<_>, _> =
            hashes.iter().map(|hash| filter.filter().get(*hash)).collect();
        entry["values"] = json!(values.expect("a map"));
    }
    entry
}

/// Returns the path of `contract.json`.
pub fn contract_path() -> PathBuf {
    testdata("contract").join("contract.json")
}

/// Writes `contract.json` and its files.
///
/// # Errors
/// If a file cannot be written.
pub fn write_contract() -> std::io::Result<()> {
    let keys = make_keys();
    fs::create_dir_all(testdata("contract"))?;
    let mut entries = Vec::new();
    for recipe in &RECIPES {
        let filter = recipe.build(&keys);
        fs::write(testdata(&recipe.path()), filter.to_bytes().expect("memory"))?;
        let mut entry = answers(&recipe.path(), &filter, &keys);
        entry["build"] = recipe.to_json();
        entries.push(entry);
    }
    let golden = Kind::ALL.iter().map(|kind| format!("golden/{kind}-v1.tamis"));
    let variants = VARIANTS.iter().map(|(name, ..)| format!("golden/{name}.tamis"));
    for path in golden.chain(["golden/guarded-denying-v1.tamis".to_owned()]).chain(variants) {
        let filter = Keyed::<AnyFilter>::open_verified(testdata(&path)).expect("a golden file");
        entries.push(answers(&path, &filter, &keys));
    }
    let keys: Vec<_> = keys.iter().map(ContractKey::to_json).collect();
    let contract = json!({ "keys": keys, "filters": entries });
    fs::write(contract_path(), format!("{contract:#}\n"))
}

/// Checks that the library answers as `contract.json` states, and builds the files byte for byte.
pub fn contract_is_kept() {
    let text = fs::read_to_string(contract_path()).expect("contract.json");
    let contract: Value = serde_json::from_str(&text).expect("JSON");
    let keys: Vec<_> =
        contract["keys"].as_array().expect("keys").iter().map(ContractKey::from_json).collect();
    let entries = contract["filters"].as_array().expect("filters");
    assert!(keys.len() >= 100 && entries.len() >= 33, "{} filters", entries.len());
    for entry in entries {
        let path = entry["path"].as_str().expect("a path");
        let filter = Keyed::<AnyFilter>::open_verified(testdata(path)).expect(path);
        let mut expected = entry.clone();
        let recipe = expected.as_object_mut().expect("an object").remove("build");
        assert_eq!(answers(path, &filter, &keys), expected, "{path}");
        assert_eq!(recipe.is_some(), path.starts_with("contract/"), "{path}");
        if recipe.is_some() {
            let recipe = RECIPES.iter().find(|recipe| recipe.path() == path).expect(path);
            assert_eq!(recipe.to_json(), entry["build"], "{path}");
            let bytes = recipe.build(&keys).to_bytes().expect("memory");
            assert!(bytes == fs::read(testdata(path)).expect(path), "{path}: other bytes");
            assert!(filter.filter().len() >= keys.len() as u64 / 2, "{path}: keys are missing");
        }
    }
}
