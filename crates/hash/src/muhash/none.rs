//! The stand-in for `x86` on other processors, which never have its instructions.

use super::element::Keys;
use super::num3072::Num3072;

/// Proof of AVX-512 with IFMA, which these processors do not have.
#[derive(Clone, Copy)]
pub enum Ifma {}

/// Products in lanes, which these processors do not compute.
pub enum Products {}

impl Ifma {
    pub fn detect() -> Option<Self> {
        None
    }

    pub fn products(self, _: &Num3072) -> Products {
        match self {}
    }
}

impl Products {
    pub fn multiply(&mut self, _: &Keys, _: usize) {
        match *self {}
    }

    pub fn together(self) -> Num3072 {
        match self {}
    }
}
