//! Recognises the usual types of output scripts.

use bitcoin::Script;

/// Returns the type of an output script in one word, as the crate `bitcoin` recognises it.
pub fn script_type(script: &[u8]) -> &'static str {
    let script = Script::from_bytes(script);
    if script.is_p2pkh() {
        "p2pkh"
    } else if script.is_p2sh() {
        "p2sh"
    } else if script.is_p2wpkh() {
        "p2wpkh"
    } else if script.is_p2wsh() {
        "p2wsh"
    } else if script.is_p2tr() {
        "p2tr"
    } else if script.is_witness_program() {
        "witness"
    } else if script.is_op_return() {
        "op_return"
    } else if script.is_p2pk() {
        "p2pk"
    } else if script.is_multisig() {
        "multisig"
    } else {
        "other"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_word() {
        let of = |start: &[u8], bytes: usize, end: &[u8]| {
            script_type(&[start, &vec![2; bytes], end].concat())
        };
        assert_eq!(of(&[0x76, 0xa9, 20], 20, &[0x88, 0xac]), "p2pkh");
        assert_eq!(of(&[0xa9, 20], 20, &[0x87]), "p2sh");
        assert_eq!(of(&[0, 20], 20, &[]), "p2wpkh");
        assert_eq!(of(&[0, 32], 32, &[]), "p2wsh");
        assert_eq!(of(&[0x51, 32], 32, &[]), "p2tr");
        assert_eq!(of(&[0x52, 32], 32, &[]), "witness");
        assert_eq!(of(&[0x51, 2], 2, &[]), "witness");
        assert_eq!(of(&[0x6a], 7, &[]), "op_return");
        assert_eq!(of(&[33], 33, &[0xac]), "p2pk");
        assert_eq!(of(&[0x51, 33], 33, &[0x51, 0xae]), "multisig");
        assert_eq!(of(&[], 0, &[]), "other");
        assert_eq!(of(&[0x76, 0xa9, 20], 19, &[0x88, 0xac]), "other");
    }
}
