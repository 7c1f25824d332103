//! The CRC-32 of zlib, which every language has: it selects the shard of an item.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte as u32, 0);
        while bit < 8 {
            value = value >> 1 ^ if value & 1 == 1 { 0xEDB8_8320 } else { 0 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
};

/// Returns the CRC-32 of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
