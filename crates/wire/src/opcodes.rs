//! The opcodes that rules, scripts and formats refer to by name (Core's `opcodetype`).

pub const OP_0: u8 = 0x00;
/// Pushes the number of bytes given by the next byte.
pub const OP_PUSHDATA1: u8 = 0x4c;
/// Pushes the number of bytes given by the next two bytes, little endian.
pub const OP_PUSHDATA2: u8 = 0x4d;
/// Pushes the number of bytes given by the next four bytes, little endian.
pub const OP_PUSHDATA4: u8 = 0x4e;
pub const OP_1NEGATE: u8 = 0x4f;
/// Pushes the number 1.
pub const OP_1: u8 = 0x51;
/// Pushes the number 16.
pub const OP_16: u8 = 0x60;
pub const OP_NOP: u8 = 0x61;
pub const OP_IF: u8 = 0x63;
pub const OP_NOTIF: u8 = 0x64;
/// Fails each script that contains it, even in a branch that is not taken.
pub const OP_VERIF: u8 = 0x65;
/// Fails each script that contains it, like [`OP_VERIF`].
pub const OP_VERNOTIF: u8 = 0x66;
pub const OP_ELSE: u8 = 0x67;
pub const OP_ENDIF: u8 = 0x68;
pub const OP_VERIFY: u8 = 0x69;
/// Fails the script.
pub const OP_RETURN: u8 = 0x6a;
pub const OP_TOALTSTACK: u8 = 0x6b;
pub const OP_FROMALTSTACK: u8 = 0x6c;
pub const OP_2DROP: u8 = 0x6d;
pub const OP_2DUP: u8 = 0x6e;
pub const OP_3DUP: u8 = 0x6f;
pub const OP_2OVER: u8 = 0x70;
pub const OP_2ROT: u8 = 0x71;
pub const OP_2SWAP: u8 = 0x72;
pub const OP_IFDUP: u8 = 0x73;
pub const OP_DEPTH: u8 = 0x74;
pub const OP_DROP: u8 = 0x75;
/// Duplicates the top stack element.
pub const OP_DUP: u8 = 0x76;
pub const OP_NIP: u8 = 0x77;
pub const OP_OVER: u8 = 0x78;
pub const OP_PICK: u8 = 0x79;
pub const OP_ROLL: u8 = 0x7a;
pub const OP_ROT: u8 = 0x7b;
pub const OP_SWAP: u8 = 0x7c;
pub const OP_TUCK: u8 = 0x7d;
pub const OP_SIZE: u8 = 0x82;
/// Compares the top two stack elements.
pub const OP_EQUAL: u8 = 0x87;
/// Fails the script unless the top two stack elements are equal.
pub const OP_EQUALVERIFY: u8 = 0x88;
pub const OP_1ADD: u8 = 0x8b;
pub const OP_1SUB: u8 = 0x8c;
pub const OP_NEGATE: u8 = 0x8f;
pub const OP_ABS: u8 = 0x90;
pub const OP_NOT: u8 = 0x91;
pub const OP_0NOTEQUAL: u8 = 0x92;
pub const OP_ADD: u8 = 0x93;
pub const OP_SUB: u8 = 0x94;
pub const OP_BOOLAND: u8 = 0x9a;
pub const OP_BOOLOR: u8 = 0x9b;
pub const OP_NUMEQUAL: u8 = 0x9c;
pub const OP_NUMEQUALVERIFY: u8 = 0x9d;
pub const OP_NUMNOTEQUAL: u8 = 0x9e;
pub const OP_LESSTHAN: u8 = 0x9f;
pub const OP_GREATERTHAN: u8 = 0xa0;
pub const OP_LESSTHANOREQUAL: u8 = 0xa1;
pub const OP_GREATERTHANOREQUAL: u8 = 0xa2;
pub const OP_MIN: u8 = 0xa3;
pub const OP_MAX: u8 = 0xa4;
pub const OP_WITHIN: u8 = 0xa5;
pub const OP_RIPEMD160: u8 = 0xa6;
pub const OP_SHA1: u8 = 0xa7;
pub const OP_SHA256: u8 = 0xa8;
/// Replaces the top stack element by the RIPEMD-160 of its SHA-256.
pub const OP_HASH160: u8 = 0xa9;
pub const OP_HASH256: u8 = 0xaa;
/// Changes what the signatures after it sign.
pub const OP_CODESEPARATOR: u8 = 0xab;
/// Checks a signature.
pub const OP_CHECKSIG: u8 = 0xac;
/// Fails the script unless a signature is valid.
pub const OP_CHECKSIGVERIFY: u8 = 0xad;
/// Checks signatures by some of several keys.
pub const OP_CHECKMULTISIG: u8 = 0xae;
/// Fails the script unless signatures by some of several keys are valid.
pub const OP_CHECKMULTISIGVERIFY: u8 = 0xaf;
pub const OP_NOP1: u8 = 0xb0;
pub const OP_CHECKLOCKTIMEVERIFY: u8 = 0xb1;
pub const OP_CHECKSEQUENCEVERIFY: u8 = 0xb2;
pub const OP_NOP4: u8 = 0xb3;
pub const OP_NOP10: u8 = 0xb9;
pub const OP_CHECKSIGADD: u8 = 0xba;
