//! The list of templates: each script with the places where it occurs.

use super::{Place, Template, bodies};

macro_rules! templates {
    ($($body:ident: $($place:ident)+;)+) => {
        /// Every template: a function of `bodies.rs` in a place.
        pub(super) const TEMPLATES: &[Template] = &[$($(Template {
            name: concat!(stringify!($body), " in ", stringify!($place)),
            place: Place::$place,
            body: bodies::$body,
        },)+)+];

        /// The names of all templates of [`crate::Kind::Odd`]: what the script does, and its place.
        pub const ODD_TEMPLATES: &[&str] =
            &[$($(concat!(stringify!($body), " in ", stringify!($place)),)+)+];
    };
}

templates! {
    high_s: Bare P2sh P2wsh;
    long_key: Bare P2sh P2wsh;
    hybrid_key: Bare P2sh P2wsh;
    hybrid_key_hash: Bare;
    clumsy_key_hash: Bare;
    clumsy_multisig: Bare P2sh;

    multisig_0_of_1: Bare P2wsh;
    multisig_1_of_2: P2sh P2wsh;
    multisig_2_of_3: Bare P2shP2wsh;
    multisig_3_of_5: Bare P2sh P2wsh;
    multisig_15_of_15: P2sh P2wsh;
    multisig_of_20: Bare P2wsh;
    multisig_of_long_keys: Bare P2sh P2wsh;
    multisig_verify: Bare P2sh P2wsh;
    multisig_not: Bare P2wsh;

    empty_signature_not: Bare P2sh P2wsh Leaf0;
    wrong_signature_not: Bare P2sh P2wsh;
    no_key_not: Bare P2wsh;

    ripemd160_lock: Bare P2wsh Leaf1;
    sha1_lock: Bare P2sh Leaf0;
    sha256_lock: P2sh P2wsh Leaf2;
    hash160_lock: P2shP2wsh Leaf0;
    hash256_lock: P2sh P2wsh Leaf1;
    contract: P2sh P2wsh P2shP2wsh Leaf1;
    either_key: P2wsh Leaf2;
    threshold: P2wsh Leaf1;
    if_of_two: Bare P2sh P2wsh;
    altstack: Bare P2sh P2wsh Leaf0;
    numbers: Bare P2wsh Leaf0;
    juggling: P2sh P2wsh Leaf3;
    nops: Bare P2sh P2wsh;
    cltv_of_five_bytes: Bare P2sh P2wsh Leaf0;
    csv_of_five_bytes: Bare P2sh P2wsh Leaf0;

    separator: Bare P2sh P2wsh P2shP2wsh Leaf0;
    separator_not_run: Bare P2sh P2wsh Leaf1;
    find_and_delete: Bare P2sh;
    find_and_delete_multisig: Bare P2sh;
    find_and_keep: P2wsh P2shP2wsh;

    annex: KeyPath;
    annex_of_leaf: Leaf0 Leaf2;
    one_key: P2sh P2shP2wsh Leaf1 Leaf2 Leaf3 Leaf4 Leaf128;
    checksigadd_2_of_3: Leaf0 Leaf1;
    checksigadd_of_20: Leaf2;
    envelope_before: Leaf0;
    envelope_after: Leaf0;
    unknown_key: Leaf0;
    op_success: Leaf0 Leaf1;
    nonsense: UnknownLeaf;
    unknown_version: Program P2sh;
    unknown_length: Program P2sh;
    taproot_program: P2sh;
}
