//! The names of opcodes as Bitcoin Core shows them (`GetOpName`).

/// The names from 0x61 (OP_NOP) to 0xba (OP_CHECKSIGADD), without `OP_`.
const NAMES: [&str; 90] = [
    "NOP",
    "VER",
    "IF",
    "NOTIF",
    "VERIF",
    "VERNOTIF",
    "ELSE",
    "ENDIF",
    "VERIFY",
    "RETURN",
    "TOALTSTACK",
    "FROMALTSTACK",
    "2DROP",
    "2DUP",
    "3DUP",
    "2OVER",
    "2ROT",
    "2SWAP",
    "IFDUP",
    "DEPTH",
    "DROP",
    "DUP",
    "NIP",
    "OVER",
    "PICK",
    "ROLL",
    "ROT",
    "SWAP",
    "TUCK",
    "CAT",
    "SUBSTR",
    "LEFT",
    "RIGHT",
    "SIZE",
    "INVERT",
    "AND",
    "OR",
    "XOR",
    "EQUAL",
    "EQUALVERIFY",
    "RESERVED1",
    "RESERVED2",
    "1ADD",
    "1SUB",
    "2MUL",
    "2DIV",
    "NEGATE",
    "ABS",
    "NOT",
    "0NOTEQUAL",
    "ADD",
    "SUB",
    "MUL",
    "DIV",
    "MOD",
    "LSHIFT",
    "RSHIFT",
    "BOOLAND",
    "BOOLOR",
    "NUMEQUAL",
    "NUMEQUALVERIFY",
    "NUMNOTEQUAL",
    "LESSTHAN",
    "GREATERTHAN",
    "LESSTHANOREQUAL",
    "GREATERTHANOREQUAL",
    "MIN",
    "MAX",
    "WITHIN",
    "RIPEMD160",
    "SHA1",
    "SHA256",
    "HASH160",
    "HASH256",
    "CODESEPARATOR",
    "CHECKSIG",
    "CHECKSIGVERIFY",
    "CHECKMULTISIG",
    "CHECKMULTISIGVERIFY",
    "NOP1",
    "CHECKLOCKTIMEVERIFY",
    "CHECKSEQUENCEVERIFY",
    "NOP4",
    "NOP5",
    "NOP6",
    "NOP7",
    "NOP8",
    "NOP9",
    "NOP10",
    "CHECKSIGADD",
];
const FIRST_NAMED: u8 = 0x61;
const OP_1NEGATE: u8 = 0x4f;
const OP_RESERVED: u8 = 0x50;
/// OP_1 to OP_16 push the numbers 1 to 16.
const BEFORE_OP_1: u8 = 0x50;
const OP_INVALIDOPCODE: u8 = 0xff;

/// Appends the name of an opcode that does not push the bytes after it.
pub fn put_name(out: &mut String, code: u8) {
    match code {
        OP_1NEGATE => out.push_str("-1"),
        OP_RESERVED => out.push_str("OP_RESERVED"),
        0x51..=0x60 => out.push_str(&(code - BEFORE_OP_1).to_string()),
        OP_INVALIDOPCODE => out.push_str("OP_INVALIDOPCODE"),
        _ => {
            let name = NAMES.get(usize::from(code.wrapping_sub(FIRST_NAMED)));
            out.push_str("OP_");
            out.push_str(name.unwrap_or(&"UNKNOWN"));
        }
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
            (0x6a, "OP_RETURN"),
            (0x76, "OP_DUP"),
            (0x87, "OP_EQUAL"),
            (0xac, "OP_CHECKSIG"),
            (0xb1, "OP_CHECKLOCKTIMEVERIFY"),
            (0xb9, "OP_NOP10"),
            (0xba, "OP_CHECKSIGADD"),
            (0xbb, "OP_UNKNOWN"),
            (0xff, "OP_INVALIDOPCODE"),
        ] {
            let mut name = String::new();
            put_name(&mut name, code);
            assert_eq!(name, expected, "{code:#x}");
        }
    }
}
