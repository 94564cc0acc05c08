//! The names of opcodes as Bitcoin Core shows them (`GetOpName`).

use bitcoin::opcodes::Opcode;

/// Appends the name of an opcode that does not push the bytes after it.
pub fn put_name(out: &mut String, code: u8) {
    match code {
        0x4f => out.push_str("-1"),
        // OP_1 to OP_16 push the numbers 1 to 16.
        0x51..=0x60 => out.push_str(&(code - 0x50).to_string()),
        0xb1 => out.push_str("OP_CHECKLOCKTIMEVERIFY"),
        0xb2 => out.push_str("OP_CHECKSEQUENCEVERIFY"),
        0x50 | 0x61..=0xba | 0xff => out.push_str(&Opcode::from(code).to_string()),
        _ => out.push_str("OP_UNKNOWN"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_at_their_opcodes() {
        for (code, expected) in [
            (0x4f, "-1"),
            (0x50, "OP_RESERVED"),
            (0x51, "1"),
            (0x60, "16"),
            (0x61, "OP_NOP"),
            (0x62, "OP_VER"),
            (0x6a, "OP_RETURN"),
            (0x7f, "OP_SUBSTR"),
            (0x76, "OP_DUP"),
            (0x87, "OP_EQUAL"),
            (0xac, "OP_CHECKSIG"),
            (0xb1, "OP_CHECKLOCKTIMEVERIFY"),
            (0xb2, "OP_CHECKSEQUENCEVERIFY"),
            (0xb9, "OP_NOP10"),
            (0xba, "OP_CHECKSIGADD"),
            (0xbb, "OP_UNKNOWN"),
            (0xfe, "OP_UNKNOWN"),
            (0xff, "OP_INVALIDOPCODE"),
        ] {
            let mut name = String::new();
            put_name(&mut name, code);
            assert_eq!(name, expected, "{code:#x}");
        }
    }
}
