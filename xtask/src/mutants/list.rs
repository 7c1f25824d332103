//! The faults, by file.

use super::Mutant;

const fn fault(
    file: &'static str,
    old: &'static str,
    new: &'static str,
    tests: &'static str,
) -> Mutant {
    Mutant { file, old, new, tests }
}

const FORMAT: &str = "tamis-format --lib";
const HASH: &str = "tamis --lib hash::";
const SEEDS: &str = "tamis-conformance --test seeds";
const DICTIONARY: &str = "tamis-dictionary --test dictionary";
const CORRUPT: &str = "tamis-conformance --test corrupt";

pub(crate) const MUTANTS: &[Mutant] = &[
    // The container: checks on opening.
    fault(
        "crates/format/src/header.rs",
        "if magic.is_empty() || !MAGIC.starts_with(magic) {",
        "if magic.is_empty() {",
        FORMAT,
    ),
    fault("crates/format/src/header.rs", "if version != VERSION {", "if version == 0 {", FORMAT),
    fault(
        "crates/format/src/header.rs",
        "if count == 0 || count > MAX_SECTIONS {",
        "if count == 0 {",
        FORMAT,
    ),
    fault(
        "crates/format/src/header.rs",
        "if found < expected {",
        "if found > expected * 2 {",
        FORMAT,
    ),
    fault(
        "crates/format/src/header.rs",
        "if checksum([&covered[..], &table]) != sum {",
        "if checksum([&covered[..], &table]) != sum && sum == 0 {",
        FORMAT,
    ),
    fault("crates/format/src/header.rs", "if bits < 8 {", "if bits < 16 {", FORMAT),
    fault("crates/format/src/header.rs", "if reserved != 0 {", "if reserved == 7 {", FORMAT),
    fault(
        "crates/format/src/header.rs",
        "const ALIGN_WORDS: u64 = 8;",
        "const ALIGN_WORDS: u64 = 4;",
        FORMAT,
    ),
    fault(
        "crates/format/src/layout.rs",
        "if bytes > limits.bytes {",
        "if bytes / 2 > limits.bytes {",
        FORMAT,
    ),
    fault(
        "crates/format/src/layout.rs",
        "if found < self.end {",
        "if found + 8 < self.end {",
        FORMAT,
    ),
    fault(
        "crates/format/src/layout.rs",
        "if found > self.end {",
        "if found > self.end + 64 {",
        FORMAT,
    ),
    fault(
        "crates/format/src/layout.rs",
        "Some((_, at)) => Err(Error::corrupt_at(at & !7, \"padding is not zero\")),",
        "Some(_) => Ok(()),",
        FORMAT,
    ),
    fault(
        "crates/format/src/layout.rs",
        "words.checked_add(*len).ok_or(too_long(u64::MAX))?",
        "words.wrapping_add(*len)",
        FORMAT,
    ),
    fault(
        "crates/format/src/reader.rs",
        "Some(sum) if checksum([&self.words[..]]) != sum => {",
        "Some(sum) if sum == 0 => {",
        FORMAT,
    ),
    fault(
        "crates/format/src/reader.rs",
        "Some(shape) if shape.name == Name::SHAPE => shape.check()?,",
        "Some(shape) if shape.name == Name::SHAPE => {}",
        FORMAT,
    ),
    fault(
        "crates/format/src/reader.rs",
        "iter().try_for_each(Section::check)",
        "iter().take(1).try_for_each(Section::check)",
        FORMAT,
    ),
    fault(
        "crates/format/src/reader.rs",
        "if words.len() as u64 != len {",
        "if (words.len() as u64) < len {",
        FORMAT,
    ),
    fault(
        "crates/format/src/reader.rs",
        "Some(left) => Err(Error::corrupt_at(left.at, \"a section too many\")),",
        "Some(_) => Ok(()),",
        FORMAT,
    ),
    fault("crates/format/src/reader.rs", "if section.name != name {", "if false {", FORMAT),
    fault(
        "crates/format/src/reader.rs",
        ".filter(|word| range.contains(word))",
        ".filter(|word| word <= &range.end())",
        FORMAT,
    ),
    fault(
        "crates/format/src/reader.rs",
        "if self.taken < self.words.len() {",
        "if self.taken + 1 < self.words.len() {",
        FORMAT,
    ),
    fault(
        "crates/format/src/chunks.rs",
        "check_padding(padding, self.found)?;",
        "let _ = check_padding(padding, self.found);",
        FORMAT,
    ),
    fault(
        "crates/format/src/chunks.rs",
        "body.layout.check_len(body.found)?;",
        "let _ = body.layout.check_len(body.found);",
        FORMAT,
    ),
    // The container: writing.
    fault(
        "crates/format/src/writer.rs",
        "words.push(checksum([&first[..], &table]));",
        "words.push(checksum([&first[..]]));",
        FORMAT,
    ),
    fault(
        "crates/format/src/writer.rs",
        "section.len(), checksum(words)]",
        "section.len(), checksum(words.take(1))]",
        FORMAT,
    ),
    fault(
        "crates/format/src/writer.rs",
        "self.padded_bytes().saturating_sub(self.len().saturating_mul(8))",
        "self.padded_bytes().saturating_sub(self.len().saturating_mul(8)) / 2",
        FORMAT,
    ),
    fault(
        "crates/format/src/save.rs",
        "let _ = calls.remove(&temporary);",
        "let _ = &temporary;",
        "tamis-format --lib save",
    ),
    // Hashes and seeds.
    fault(
        "crates/tamis/src/hash/mod.rs",
        "2 => Ok(Self::Secure),",
        "2 | 4 => Ok(Self::Secure),",
        SEEDS,
    ),
    fault("crates/tamis/src/hash/mod.rs", ".rotate_left(27)", ".rotate_left(26)", SEEDS),
    fault(
        "crates/tamis/src/hash/fast.rs",
        "let lo = ((mixed as u64).rotate_left(32) ^ hi).wrapping_add(low);",
        "let lo = (mixed as u64).rotate_left(32) ^ hi;",
        HASH,
    ),
    fault(
        "crates/tamis/src/hash/mod.rs",
        "Ok(Self::new(id, [word()?, word()?]))",
        "Ok(Self::new(id, [word()?, 0]))",
        HASH,
    ),
    fault(
        "crates/tamis/src/hash/mod.rs",
        "let word = || getrandom::u64().map_err(|error| Error::Random(error.into()));",
        "let word = || Ok::<_, Error>(getrandom::u64().unwrap() & 0xffff);",
        HASH,
    ),
    fault(
        "crates/tamis/src/hash/mod.rs",
        ".field(\"id\", &self.id).finish_non_exhaustive()",
        ".field(\"id\", &self.id).field(\"seed\", &self.seed).finish()",
        HASH,
    ),
    fault(
        "crates/tamis/src/hash/mod.rs",
        "let words = [first.hi, first.lo, second.hi, second.lo];",
        "let words = [first.hi, first.lo, second.hi, first.lo];",
        SEEDS,
    ),
    fault(
        "crates/tamis/src/hash/mod.rs",
        "SipHasher13::new_with_keys(self.seed[0], self.seed[1])",
        "SipHasher13::new_with_keys(self.seed[0], 0)",
        HASH,
    ),
    // A hasher in front of a filter.
    fault(
        "crates/tamis/src/keyed/mod.rs",
        "if self.hasher == other.hasher {",
        "if self.hasher.id() == other.hasher.id() {",
        "tamis-conformance --test filters unlike_filters_do_not_merge",
    ),
    fault(
        "crates/tamis/src/keyed/mod.rs",
        "if self.forms.is_none() || self.forms.contains(given) {",
        "if given.bits() < 8 {",
        "tamis-conformance --test filters key_forms_are_recorded",
    ),
    fault(
        "crates/tamis/src/keyed/mod.rs",
        "self.forms = self.forms.union(K::FORM);",
        "self.forms = K::FORM.union(K::FORM);",
        "tamis-conformance --test filters key_forms_are_recorded",
    ),
    fault("crates/tamis/src/keyed/bytes.rs", "reader.verify()?;", "", CORRUPT),
    fault("crates/tamis/src/keyed/bytes.rs", "keyed.filter.validate()?;", "", CORRUPT),
    fault(
        "crates/tamis/src/keyed/bytes.rs",
        "reader.finish()?;",
        "",
        "tamis-conformance --test filters the_unknown_is_an_error",
    ),
    fault(
        "crates/tamis/src/keyed/bytes.rs",
        "if self.container().is_shared() {",
        "if self.container().heap_bytes() > 0 {",
        "tamis-conformance --test filters memory",
    ),
    fault(
        "crates/tamis/src/keyed/any.rs",
        "self.filter.insert_batch(hashes).map_err(|error| error.after(at))",
        "self.filter.insert_batch(hashes).map_err(|error| error.after(at / 2))",
        "tamis-conformance --test filters batches_do_what_single",
    ),
    // Filters.
    fault(
        "crates/tamis/src/filters/quotient.rs",
        "slot >= shape.slots() || filter.len >= shape.keys",
        "slot >= shape.slots()",
        "tamis --lib filters::quotient",
    ),
    fault(
        "crates/tamis/src/filters/hash_compaction.rs",
        "if fingerprint <= last {",
        "if fingerprint < 1 {",
        "tamis --lib filters::hash_compaction",
    ),
    fault(
        "crates/tamis/src/filters/growing/mod.rs",
        "if len > SEGMENT_KEYS * segments ||",
        "if len > MAX_KEYS ||",
        CORRUPT,
    ),
    fault(
        "crates/tamis/src/filters/adaptive_bloom.rs",
        "fields.next(0..=MAX_KEYS, \"capacity\")?",
        "fields.next(len..=MAX_KEYS, \"capacity\")?",
        CORRUPT,
    ),
    fault(
        "crates/tamis/src/filters/broom/mod.rs",
        "if (0..moving.next).any(|bin| !self.table.gather(bin).is_empty()) {",
        "if moving.next > self.table.shape.bins {",
        CORRUPT,
    ),
    fault(
        "crates/tamis/src/filters/adaptive_quotient.rs",
        "fields.next(len.saturating_sub(1)..=MAX_KEYS, \"capacity\")?",
        "fields.next(len..=MAX_KEYS, \"capacity\")?",
        CORRUPT,
    ),
    fault(
        "crates/tamis/src/filters/broom/table.rs",
        "if self.view(self.bin(*key)).is_sound() {",
        "if self.shape.bins > 0 {",
        CORRUPT,
    ),
    fault(
        "crates/tamis/src/filters/bloom.rs",
        "(-(ones as f64 / m).min(1.0)).ln_1p()",
        "(-(ones as f64 / m)).ln_1p()",
        CORRUPT,
    ),
    fault(
        "crates/tamis/src/filters/sliding/mod.rs",
        "before.saturating_sub(stamp)",
        "before - stamp",
        CORRUPT,
    ),
    // The dictionary.
    fault(
        "crates/dictionary/src/engine/repair.rs",
        "let same_version = state.stable_version() == Some(version);",
        "let same_version = version == version;",
        DICTIONARY,
    ),
    fault(
        "crates/dictionary/src/engine/repair.rs",
        "if due(state) != Some((version, range)) {",
        "if false {",
        DICTIONARY,
    ),
    fault(
        "crates/dictionary/src/shard.rs",
        "(!self.writing).then_some(Version(self.version))",
        "Some(Version(self.version))",
        DICTIONARY,
    ),
    fault("crates/dictionary/src/shard.rs", "self.version += 1;", "self.version += 0;", DICTIONARY),
    fault("crates/dictionary/src/dictionary.rs", "store.acquire()?;", "", DICTIONARY),
    // The command.
    fault(
        "crates/cli/src/commands/build/mod.rs",
        "if !args.no_verify && !kind.can(Capability::Static) {",
        "if args.no_verify && !kind.can(Capability::Static) {",
        "tamis-cli --test command a_build_queries_every_key_again",
    ),
    fault(
        "crates/cli/src/commands/build/mod.rs",
        "(read, _) if read != built => Err(changed()),",
        "",
        "tamis-cli --lib build",
    ),
    fault(
        "crates/cli/src/commands/build/deny.rs",
        "if !args.no_verify {",
        "if args.no_verify {",
        "tamis-cli --test command a_build_queries_every_key_again",
    ),
    fault(
        "crates/cli/src/commands/add.rs",
        "Err(Error::Full { inserted }) => refused = Some(hashes[inserted as usize]),",
        "Err(Error::Full { .. }) => {}",
        "tamis-cli --test command every_kind_does_what_it_claims",
    ),
    fault(
        "crates/cli/src/files.rs",
        "let opened = open(path, true)?;",
        "let opened = open(path, false)?;",
        "tamis-cli --test command damage_of_any_kind_is_found",
    ),
    fault(
        "crates/cli/src/commands/merge.rs",
        "let other = files::open(path, true)?;",
        "let other = files::open(path, false)?;",
        "tamis-cli --test command damage_of_any_kind_is_found",
    ),
    fault(
        "crates/cli/src/files.rs",
        "Ok(metadata) if metadata.is_dir() => bail!(\"{}: is a directory\", path.display()),",
        "Ok(metadata) if metadata.is_dir() => return Ok(()),",
        "tamis-cli --test cmd",
    ),
];
