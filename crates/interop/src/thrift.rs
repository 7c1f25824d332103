//! The part of Thrift's compact protocol that Parquet's headers need.
//!
//! A reader holds the rest of the bytes. Every value takes at least one byte, so that a loop over the
//! elements of a list ends with the bytes, whatever length the list states. Nothing is allocated.

/// The depth of structures that are skipped. Parquet's have less than 10.
const MAX_DEPTH: u32 = 64;

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thrift<'a>(&'a [u8]);

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A boolean, whose value is in the header of its field.
    Bool,
    /// An 8-bit integer.
    Byte,
    /// An integer of 16, 32 or 64 bits.
    Integer,
    /// A 64-bit float.
    Double,
    /// Bytes or text.
    Binary,
    /// A list or a set.
    List,
    /// A map.
    Map,
    /// A structure.
    Struct,
    /// 16 bytes.
    Uuid,
}

impl Type {
    fn from_id(id: u8) -> Option<Self> {
        Some(match id {
            1 | 2 => Self::Bool,
            3 => Self::Byte,
            4..=6 => Self::Integer,
            7 => Self::Double,
            8 => Self::Binary,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return None,
        })
    }
}

/// The fields of a structure. Each field's value must be taken or skipped before the next.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    last: i64,
}

impl Fields {
    /// Returns the number and the type of the next field, or `Some(None)` at the end of the structure.
    #[expect(clippy::option_option, reason = "the outer one is an error")]
    pub(crate) fn next(&mut self, from: &mut Thrift<'_>) -> Option<Option<(i64, Type)>> {
        let byte = from.byte()?;
        if byte == 0 {
            return Some(None);
        }
        self.last = match byte >> 4 {
            0 => from.integer()?,
            delta => self.last.checked_add(delta.into())?,
        };
        Some(Some((self.last, Type::from_id(byte & 15)?)))
    }
}

impl<'a> Thrift<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Takes an integer.
    pub(crate) fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg())
    }

    /// Takes bytes.
    pub(crate) fn binary(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Takes the header of a list: its length, and the type of its elements.
    pub(crate) fn list(&mut self) -> Option<(u64, Type)> {
        let byte = self.byte()?;
        let len = match byte >> 4 {
            15 => self.varint()?,
            len => len.into(),
        };
        Some((len, Type::from_id(byte & 15)?))
    }

    /// Skips the value of a field.
    pub(crate) fn skip(&mut self, of: Type) -> Option<()> {
        // A boolean field has its value in its header.
        if of == Type::Bool { Some(()) } else { self.skip_value(of, MAX_DEPTH) }
    }

    fn skip_value(&mut self, of: Type, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match of {
            Type::Bool | Type::Byte => self.byte().map(drop),
            Type::Integer => self.varint().map(drop),
            Type::Double => self.skip_bytes(8),
            Type::Uuid => self.skip_bytes(16),
            Type::Binary => self.binary().map(drop),
            Type::List => {
                let (len, of) = self.list()?;
                (0..len).try_for_each(|_| self.skip_value(of, depth))
            }
            Type::Map => {
                let len = self.varint()?;
                if len == 0 {
                    return Some(());
                }
                let types = self.byte()?;
                let (key, value) = (Type::from_id(types >> 4)?, Type::from_id(types & 15)?);
                (0..len).try_for_each(|_| {
                    self.skip_value(key, depth)?;
                    self.skip_value(value, depth)
                })
            }
            Type::Struct => {
                let mut fields = Fields::default();
                while let Some((_, of)) = fields.next(self)? {
                    if of != Type::Bool {
                        self.skip_value(of, depth)?;
                    }
                }
                Some(())
            }
        }
    }

    fn skip_bytes(&mut self, len: usize) -> Option<()> {
        let (_, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(())
    }
}

/// Appends an unsigned integer.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(0x80 | low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_and_skipped() {
        // Fields 1 (integer -3), 2 (true), 20 (list of 2 structures), 21 (map of 1), end.
        let bytes =
            [0x15, 5, 0x11, 0x09, 40, 0x2c, 0x15, 2, 0, 0, 0x1b, 1, 0x58, 4, 2, b'a', b'b', 0, 99];
        let (mut from, mut fields) = (Thrift::new(&bytes), Fields::default());
        assert_eq!(fields.next(&mut from), Some(Some((1, Type::Integer))));
        assert_eq!(from.integer(), Some(-3));
        assert_eq!(fields.next(&mut from), Some(Some((2, Type::Bool))));
        from.skip(Type::Bool).expect("the message is whole");
        for (number, of) in [(20, Type::List), (21, Type::Map)] {
            assert_eq!(fields.next(&mut from), Some(Some((number, of))));
            from.skip(of).expect("the message is whole");
        }
        assert_eq!(fields.next(&mut from), Some(None));
        assert_eq!(from.rest(), [99]);
    }

    #[test]
    fn hostile_messages_end() {
        // A list of 2^62 booleans, a structure in a structure without end, an endless integer.
        assert_eq!(
            Thrift::new(&[0xf1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 1])
                .skip(Type::List),
            None
        );
        assert_eq!(Thrift::new(&[0x1c; 1000]).skip(Type::Struct), None);
        assert_eq!(Thrift::new(&[0xff; 20]).integer(), None);
        assert_eq!(Thrift::new(&[0x19; 1000]).skip(Type::List), None);
        for value in [0, 1, 127, 128, u64::MAX] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            assert_eq!(Thrift::new(&bytes).varint(), Some(value));
        }
    }
}
