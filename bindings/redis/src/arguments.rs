//! The arguments of commands: numbers, plans of filters, items.

use std::str::FromStr;

use tamis::{Capability, Error, HashId, KeyForms, KeyHash, KeyHasher, Kind, SettingValue, Sizing};

use crate::failure::Failure;
use crate::server::Argument;
use crate::value::Filter;

/// The rate of a filter that a command makes without being told one.
pub(crate) const DEFAULT_FPR: f64 = 0.01;

/// Parses a number.
pub(crate) fn number<T: FromStr>(bytes: &[u8], what: &str) -> Result<T, Failure> {
    let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("{what} is not a valid number").into())
}

/// Arguments that are read one by one.
pub(crate) struct Words<'a> {
    rest: &'a [&'a [u8]],
}

impl<'a> Words<'a> {
    pub(crate) fn new(words: &'a [&'a [u8]]) -> Self {
        Self { rest: words }
    }

    /// Returns the next argument, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Returns the value of an option.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], Failure> {
        self.next().ok_or(Failure::SYNTAX)
    }

    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Failure> {
        number(self.value()?, what)
    }

    fn text(&mut self) -> Result<String, Failure> {
        Ok(String::from_utf8_lossy(self.value()?).into_owned())
    }
}

/// Returns the bytes of arguments.
pub(crate) fn bytes(arguments: &[Argument]) -> Vec<&[u8]> {
    arguments.iter().map(Argument::bytes).collect()
}

/// A filter to be made: its kind, size, hash and seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) sizing: Sizing,
    pub(crate) hasher: KeyHasher,
    pub(crate) key_forms: KeyForms,
    capacity: Option<u64>,
    fpr: f64,
    settings: Vec<(String, String)>,
}

impl Plan {
    /// Plans a filter of keys that are bytes, with a random seed and the secure hash, or the ordered one
    /// for a kind that answers ranges.
    pub(crate) fn new(kind: Kind, capacity: Option<u64>, fpr: f64) -> Result<Self, Failure> {
        let mut sizing = Sizing::fpr(fpr);
        if let Some(capacity) = capacity {
            sizing = sizing.capacity(capacity);
        }
        let hash = match kind.default_hash() {
            HashId::Fast => HashId::Secure,
            hash => hash,
        };
        Ok(Self {
            kind,
            sizing,
            hasher: KeyHasher::random(hash)?,
            key_forms: KeyForms::BYTES,
            capacity,
            fpr,
            settings: Vec::new(),
        })
    }

    /// Sets a setting of the kind.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.sizing = self.sizing.clone().set(name, SettingValue::parse(value));
        self.settings.push((name.into(), value.into()));
    }

    /// Reads `kind fpr [options]`.
    pub(crate) fn parse(words: &[&[u8]]) -> Result<Self, Failure> {
        let mut words = Words::new(words);
        let (kind, fpr) = (parse_kind(words.value()?)?, words.number("the rate")?);
        Self::new(kind, None, fpr)?.with_options(words)
    }

    /// Reads `[HASH name] [SEED hex] [INTEGERS] [WINDOW milliseconds] [SET name value]…`.
    pub(crate) fn with_options(mut self, mut words: Words<'_>) -> Result<Self, Failure> {
        let (mut hash, mut seed) = (self.hasher.id(), self.hasher.seed());
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"HASH" => hash = words.text()?.parse().map_err(Error::from)?,
                b"SEED" => seed = parse_seed(&words.text()?)?,
                b"INTEGERS" => self.key_forms = KeyForms::INTEGERS,
                b"WINDOW" => {
                    let milliseconds: u64 = words.number("the duration of the window")?;
                    self.set("ticks", &milliseconds.to_string());
                }
                b"SET" => {
                    let name = words.text()?;
                    self.set(&name, &words.text()?);
                }
                _ => return Err(Failure::SYNTAX),
            }
        }
        self.hasher = KeyHasher::new(hash, seed);
        Ok(self)
    }

    /// Returns the arguments from which the same filter is made on any server: `kind`, the capacity
    /// if there is one, `fpr` and all options with the seed.
    pub(crate) fn arguments(&self) -> Vec<Vec<u8>> {
        let [low, high] = self.hasher.seed();
        let mut words = vec![self.kind.name().into()];
        words.extend(self.capacity.map(|capacity| capacity.to_string()));
        words.extend([self.fpr.to_string(), "HASH".into(), self.hasher.id().name().into()]);
        words.extend(["SEED".into(), format!("{high:016x}{low:016x}")]);
        if self.key_forms == KeyForms::INTEGERS {
            words.push("INTEGERS".into());
        }
        for (name, value) in &self.settings {
            words.extend(["SET".into(), name.clone(), value.clone()]);
        }
        words.into_iter().map(String::into_bytes).collect()
    }

    /// Returns the bytes that an empty filter takes, and checks the plan.
    pub(crate) fn planned_bytes(&self) -> Result<u64, Failure> {
        let keys = self.capacity.unwrap_or(tamis::plan::FIRST_KEYS);
        Ok(self.kind.plan(self.sizing.goal(keys), self.sizing.get_settings())?.bytes)
    }

    /// Makes an empty filter.
    pub(crate) fn empty(&self) -> Result<Filter, Failure> {
        let builder = Filter::builder(self.kind).sizing(self.sizing.clone()).hasher(&self.hasher);
        Ok(builder.empty()?.with_key_forms(self.key_forms))
    }

    /// Returns whether the filter gives each key a value.
    pub(crate) fn is_map(&self) -> bool {
        self.kind.can(Capability::Map)
    }

    /// Returns how the filter's items are hashed.
    pub(crate) fn items(&self) -> Items {
        Items { hasher: self.hasher, integers: self.key_forms == KeyForms::INTEGERS }
    }
}

/// Parses the name of a kind.
pub(crate) fn parse_kind(name: &[u8]) -> Result<Kind, Failure> {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    Ok(name.parse::<Kind>().map_err(Error::from)?)
}

/// Parses a seed of 128 bits: 32 hexadecimal digits.
fn parse_seed(text: &str) -> Result<[u64; 2], Failure> {
    let hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    match u128::from_str_radix(text, 16) {
        Ok(seed) if hex => Ok([seed as u64, (seed >> 64) as u64]),
        _ => Err(Failure::text("a seed has 32 hexadecimal digits")),
    }
}

/// How the items of a filter are hashed: as bytes, or as the integers that they spell.
#[derive(Clone, Copy)]
pub(crate) struct Items {
    hasher: KeyHasher,
    integers: bool,
}

impl Items {
    /// Returns how the items of a filter are hashed: as integers if it holds nothing else.
    pub(crate) fn of(filter: &Filter) -> Result<Self, Failure> {
        let integers = filter.key_forms() == KeyForms::INTEGERS;
        if !integers {
            filter.check_key_form(KeyForms::BYTES)?;
        }
        Ok(Self { hasher: *filter.hasher(), integers })
    }

    pub(crate) fn hash(&self, item: &[u8]) -> Result<KeyHash, Failure> {
        if !self.integers {
            return Ok(self.hasher.bytes(item));
        }
        let text = std::str::from_utf8(item).ok();
        let value = text.and_then(|text| {
            text.parse::<i64>().map(|value| value as u64).or_else(|_| text.parse()).ok()
        });
        value
            .map(|value| self.hasher.int(value))
            .ok_or_else(|| Failure::text("the items of this filter are integers of 64 bits"))
    }

    pub(crate) fn hashes(&self, items: &[Argument]) -> Result<Vec<KeyHash>, Failure> {
        items.iter().map(|item| self.hash(item.bytes())).collect()
    }
}
