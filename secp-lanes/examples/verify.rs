//! Verifies a few signatures in one batch.

use secp_lanes::Batch;
use secp256k1::{Keypair, Message, SECP256K1, SecretKey};

fn main() {
    let mut batch = Batch::default();
    println!("kernel: {:?}", batch.kernel());
    for i in 1..=5 {
        let message = [i; 32];
        let key = SecretKey::from_slice(&[i; 32]).expect("a key");
        let digest = Message::from_digest(message);
        let ecdsa = SECP256K1.sign_ecdsa(&digest, &key);
        let public = key.public_key(SECP256K1).serialize();
        batch.push_ecdsa(&public, &ecdsa.serialize_der(), &message);
        let pair = Keypair::from_secret_key(SECP256K1, &key);
        let schnorr = SECP256K1.sign_schnorr_no_aux_rand(&digest, &pair);
        let public = pair.x_only_public_key().0.serialize();
        // The message of the last signature is not the one that was signed.
        let message = if i == 5 { [0; 32] } else { message };
        batch.push_schnorr(&public, &schnorr.serialize(), &message);
    }
    for (i, verdict) in batch.verify().iter().enumerate() {
        println!("signature {i}: {verdict:?}");
    }
}
