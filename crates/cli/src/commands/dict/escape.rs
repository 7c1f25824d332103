//! The escapes of `tamis dict dump` and `tamis dict load`.
//!
//! ```text
//!  \\  backslash      \t  tab      \n  line feed      \r  carriage return      \xHH  the byte HH
//! ```
//!
//! A dump is UTF-8 text: bytes that are not UTF-8, control characters and byte order marks are escaped. `load`
//! takes any other byte as it is.

use std::borrow::Cow;
use std::str::from_utf8;

/// Appends the bytes with escapes.
pub(super) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let text = character.encode_utf8(&mut buffer).as_bytes();
            match character {
                '\\' => out.extend(br"\\"),
                '\t' => out.extend(br"\t"),
                '\n' => out.extend(br"\n"),
                '\r' => out.extend(br"\r"),
                '\u{feff}' => escape_bytes(text, out),
                _ if character.is_control() => escape_bytes(text, out),
                _ => out.extend(text),
            }
        }
        escape_bytes(chunk.invalid(), out);
    }
}

fn escape_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend(format!("\\x{byte:02x}").into_bytes());
    }
}

/// Returns the bytes that an escaped text stands for, or what is wrong with it.
pub(super) fn unescape(text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    let Some(first) = memchr::memchr(b'\\', text) else { return Ok(Cow::Borrowed(text)) };
    let mut out = text[..first].to_vec();
    let mut rest = &text[first..];
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let (escaped, used) = match rest {
            [b'\\', ..] => (b'\\', 1),
            [b't', ..] => (b'\t', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digits = from_utf8(&rest[1..3]).unwrap_or_default();
                (u8::from_str_radix(digits, 16).unwrap_or_default(), 3)
            }
            _ => {
                let shown: String = String::from_utf8_lossy(rest).chars().take(1).collect();
                return Err(format!(r"\{shown} is not an escape; a backslash is written \\"));
            }
        };
        out.push(escaped);
        rest = &rest[used..];
    }
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        escape(bytes, &mut out);
        String::from_utf8(out).expect("a dump is UTF-8")
    }

    #[test]
    fn every_byte_round_trips() {
        let pairs = (0..=u16::MAX).map(|pair| pair.to_le_bytes().to_vec());
        let others = [&b""[..], "\u{feff}key".as_bytes(), "é€𝄞\u{85}".as_bytes(), b"\xf0\x9f\x98"];
        for bytes in pairs.chain(others.map(<[u8]>::to_vec)) {
            let text = escaped(&bytes);
            assert!(!text.contains(['\t', '\n', '\r', '\u{feff}']), "{bytes:?}");
            assert_eq!(unescape(text.as_bytes()).unwrap(), bytes);
        }
        assert_eq!(escaped(b"a\tb\\\n\r\0\xff"), r"a\tb\\\n\r\x00\xff");
        assert_eq!(escaped("é \u{feff}".as_bytes()), r"é \xef\xbb\xbf");
    }

    #[test]
    fn other_escapes_are_errors() {
        for text in [r"\", r"a\", r"\q", r"\x", r"\x1", r"\x1g", r"\xé", r"\0"] {
            let error = unescape(text.as_bytes()).unwrap_err();
            assert!(error.contains("is not an escape"), "{text}: {error}");
        }
    }
}
