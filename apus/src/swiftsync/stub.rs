use crate::wire::{sha256};
use super::*;
pub struct Salt([u8; 64]);
impl Salt { pub fn new(b: [u8; 64]) -> Self { Self(b) } pub fn random() -> Result<Self, String> { let mut b = [0; 64]; getrandom::fill(&mut b).map_err(|e| e.to_string())?; Ok(Self(b)) } pub fn as_bytes(&self) -> &[u8; 64] { &self.0 } }
pub trait Aggregate: Send + Sized {
    fn new(salt: &Salt) -> Self;
    fn create(&mut self, element: &[u8]);
    fn spend(&mut self, element: &[u8]);
    fn create_outpoints(&mut self, e: &[[u8; 36]]) { e.iter().for_each(|e| self.create(e)) }
    fn spend_outpoints(&mut self, e: &[[u8; 36]]) { e.iter().for_each(|e| self.spend(e)) }
    fn create_many(&mut self, b: &[u8], ends: &[usize]) { let mut s = 0; for e in ends { self.create(&b[s..*e]); s = *e; } }
    fn spend_many(&mut self, b: &[u8], ends: &[usize]) { let mut s = 0; for e in ends { self.spend(&b[s..*e]); s = *e; } }
    fn combine(&mut self, other: &Self);
    fn is_balanced(&self) -> bool;
    fn to_bytes(&self) -> Vec<u8>;
    fn from_bytes(salt: &Salt, bytes: &[u8]) -> Option<Self>;
}
pub struct SumAggregate { s: [u8; 64], v: u64 }
impl SumAggregate { fn h(&self, e: &[u8]) -> u64 { let mut x = self.s.to_vec(); x.extend(e); u64::from_le_bytes(sha256(&x)[..8].try_into().unwrap()) } }
impl Aggregate for SumAggregate {
    fn new(salt: &Salt) -> Self { Self { s: salt.0, v: 0 } }
    fn create(&mut self, e: &[u8]) { self.v = self.v.wrapping_add(self.h(e)) }
    fn spend(&mut self, e: &[u8]) { self.v = self.v.wrapping_sub(self.h(e)) }
    fn combine(&mut self, o: &Self) { self.v = self.v.wrapping_add(o.v) }
    fn is_balanced(&self) -> bool { self.v == 0 }
    fn to_bytes(&self) -> Vec<u8> { self.v.to_le_bytes().to_vec() }
    fn from_bytes(salt: &Salt, b: &[u8]) -> Option<Self> { Some(Self { s: salt.0, v: u64::from_le_bytes(b.try_into().ok()?) }) }
}
pub type MuHashAggregate = SumAggregate;
