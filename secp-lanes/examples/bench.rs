//! y
use secp_lanes::{Batch, Kernel, Options};
use secp256k1::{Keypair, Message, SECP256K1, SecretKey};
use std::time::Instant;
fn main() {
    let mut r = 1u64;
    let mut bytes = || {
        let mut b = [0u8; 32];
        for c in b.chunks_mut(8) {
            r = r.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            c.copy_from_slice(&(r ^ (r >> 29)).to_le_bytes());
        }
        b
    };
    let n = 1024;
    let mut e = vec![];
    let mut s = vec![];
    for _ in 0..n {
        let k = SecretKey::from_slice(&bytes()).unwrap();
        let m = bytes();
        let sig = SECP256K1.sign_ecdsa(&Message::from_digest(m), &k);
        e.push((k.public_key(SECP256K1).serialize(), sig.serialize_der().to_vec(), m));
        let kp = Keypair::from_secret_key(SECP256K1, &k);
        s.push((
            kp.x_only_public_key().0.serialize(),
            SECP256K1.sign_schnorr_no_aux_rand(&Message::from_digest(m), &kp).serialize(),
            m,
        ));
    }
    for kernel in [Kernel::Library, Kernel::Avx512, Kernel::Portable] {
        let mut b = Batch::new(Options { kernel: Some(kernel), ..Default::default() });
        for round in 0..3 {
            let t = Instant::now();
            let reps = if kernel == Kernel::Avx512 { 20 } else { 1 };
            let mut push = 0.0;
            let mut ok = 0;
            for _ in 0..reps {
                let t = Instant::now();
                for (k, d, m) in &e {
                    b.push_ecdsa(k, d, m);
                }
                push += t.elapsed().as_secs_f64();
                ok = b.verify().iter().filter(|v| **v == secp_lanes::Verdict::Valid).count();
            }
            println!(
                "{kernel:?} ecdsa {:.0} ns (push {:.0}) valid {ok}",
                t.elapsed().as_secs_f64() * 1e9 / (n * reps) as f64,
                push * 1e9 / (n * reps) as f64
            );
            let t = Instant::now();
            let mut push = 0.0;
            for _ in 0..reps {
                let t = Instant::now();
                for (k, d, m) in &s {
                    b.push_schnorr(k, d, m);
                }
                push += t.elapsed().as_secs_f64();
                ok = b.verify().iter().filter(|v| **v == secp_lanes::Verdict::Valid).count();
            }
            println!(
                "{kernel:?} schnorr {:.0} ns (push {:.0}) valid {ok}",
                t.elapsed().as_secs_f64() * 1e9 / (n * reps) as f64,
                push * 1e9 / (n * reps) as f64
            );
        }
    }
}
