//! The opcodes that rules and formats look for (Core's `opcodetype`).

/// Pushes as many bytes as the next byte says.
pub const OP_PUSHDATA1: u8 = 0x4c;
/// Pushes as many bytes as the next two bytes say, little endian.
pub const OP_PUSHDATA2: u8 = 0x4d;
/// Pushes as many bytes as the next four bytes say, little endian.
pub const OP_PUSHDATA4: u8 = 0x4e;
/// Pushes the number 1.
pub const OP_1: u8 = 0x51;
/// Pushes the number 16.
pub const OP_16: u8 = 0x60;
/// Ends the script as invalid.
pub const OP_RETURN: u8 = 0x6a;
/// Copies the top of the stack.
pub const OP_DUP: u8 = 0x76;
/// Compares the two top elements.
pub const OP_EQUAL: u8 = 0x87;
/// Ends the script as invalid unless the two top elements are equal.
pub const OP_EQUALVERIFY: u8 = 0x88;
/// Replaces the top of the stack by RIPEMD-160 of its SHA-256.
pub const OP_HASH160: u8 = 0xa9;
/// Checks a signature.
pub const OP_CHECKSIG: u8 = 0xac;
/// Ends the script as invalid unless a signature is valid.
pub const OP_CHECKSIGVERIFY: u8 = 0xad;
/// Checks signatures by some of several keys.
pub const OP_CHECKMULTISIG: u8 = 0xae;
/// Ends the script as invalid unless signatures by some of several keys are valid.
pub const OP_CHECKMULTISIGVERIFY: u8 = 0xaf;
