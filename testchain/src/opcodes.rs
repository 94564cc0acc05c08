//! Opcodes of scripts as bytes, by the names that Bitcoin Core gives them.

use bitcoin::opcodes::all as upstream;

pub const OP_0: u8 = upstream::OP_PUSHBYTES_0.to_u8();
pub const OP_PUSHDATA1: u8 = upstream::OP_PUSHDATA1.to_u8();
pub const OP_PUSHDATA2: u8 = upstream::OP_PUSHDATA2.to_u8();
pub const OP_1NEGATE: u8 = upstream::OP_PUSHNUM_NEG1.to_u8();
pub const OP_RESERVED: u8 = upstream::OP_RESERVED.to_u8();
pub const OP_1: u8 = upstream::OP_PUSHNUM_1.to_u8();
pub const OP_2: u8 = upstream::OP_PUSHNUM_2.to_u8();
pub const OP_NOP: u8 = upstream::OP_NOP.to_u8();
pub const OP_IF: u8 = upstream::OP_IF.to_u8();
pub const OP_ELSE: u8 = upstream::OP_ELSE.to_u8();
pub const OP_ENDIF: u8 = upstream::OP_ENDIF.to_u8();
pub const OP_VERIFY: u8 = upstream::OP_VERIFY.to_u8();
pub const OP_RETURN: u8 = upstream::OP_RETURN.to_u8();
pub const OP_TOALTSTACK: u8 = upstream::OP_TOALTSTACK.to_u8();
pub const OP_FROMALTSTACK: u8 = upstream::OP_FROMALTSTACK.to_u8();
pub const OP_DROP: u8 = upstream::OP_DROP.to_u8();
pub const OP_DUP: u8 = upstream::OP_DUP.to_u8();
pub const OP_CAT: u8 = upstream::OP_CAT.to_u8();
pub const OP_EQUAL: u8 = upstream::OP_EQUAL.to_u8();
pub const OP_EQUALVERIFY: u8 = upstream::OP_EQUALVERIFY.to_u8();
pub const OP_1ADD: u8 = upstream::OP_1ADD.to_u8();
pub const OP_BOOLAND: u8 = upstream::OP_BOOLAND.to_u8();
pub const OP_NUMEQUALVERIFY: u8 = upstream::OP_NUMEQUALVERIFY.to_u8();
pub const OP_HASH160: u8 = upstream::OP_HASH160.to_u8();
pub const OP_CHECKSIG: u8 = upstream::OP_CHECKSIG.to_u8();
pub const OP_CHECKSIGVERIFY: u8 = upstream::OP_CHECKSIGVERIFY.to_u8();
pub const OP_CHECKMULTISIG: u8 = upstream::OP_CHECKMULTISIG.to_u8();
pub const OP_CHECKMULTISIGVERIFY: u8 = upstream::OP_CHECKMULTISIGVERIFY.to_u8();
pub const OP_CHECKLOCKTIMEVERIFY: u8 = upstream::OP_CLTV.to_u8();
pub const OP_CHECKSEQUENCEVERIFY: u8 = upstream::OP_CSV.to_u8();
