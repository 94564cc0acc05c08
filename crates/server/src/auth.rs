//! Who may ask: names and passwords, salted and hashed as in Core's `-rpcauth`, and which methods
//! each may call.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use apus_hash::hex;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

/// A user's name, with the salted hash of the password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    user: String,
    salt: String,
    hash: [u8; 32],
}

/// Which methods users may call (Core's `-rpcwhitelist`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Whitelist {
    /// The methods of each user who is named.
    pub methods: BTreeMap<String, BTreeSet<String>>,
    /// Whether users who are not named may call nothing.
    pub refuses_others: bool,
}

/// The sender by the header of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Identity {
    /// There is no header.
    Unnamed,
    /// The name or the password is wrong.
    Wrong,
    /// The user of this name.
    User(String),
}

impl Credential {
    /// Salts and hashes a password.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(user: &str, password: &str) -> io::Result<Self> {
        Ok(Self::salted(user, password, random()?))
    }

    fn salted(user: &str, password: &str, salt: [u8; 16]) -> Self {
        let salt = hex(&salt);
        let key = hmac::Key::new(hmac::HMAC_SHA256, salt.as_bytes());
        let tag = hmac::sign(&key, password.as_bytes());
        let hash = tag.as_ref().try_into().expect("SHA-256 has 32 bytes");
        Self { user: user.to_string(), salt, hash }
    }

    /// Parses `USER:SALT$HASH` (Core's `-rpcauth`); `None` if the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let (user, rest) = text.split_once(':')?;
        let (salt, hash) = rest.split_once('$')?;
        let is_whole = !rest.contains(':') && !hash.contains('$');
        // As in Core, digits in capitals match no password.
        let is_lower = hash.len() == 64 && !hash.bytes().any(|digit| digit.is_ascii_uppercase());
        let digit = |at: usize| u8::from_str_radix(hash.get(2 * at..2 * at + 2)?, 16).ok();
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate().filter(|_| is_lower) {
            *byte = digit(at)?;
        }
        is_whole.then(|| Self { user: user.to_string(), salt: salt.to_string(), hash: bytes })
    }

    fn is_of(&self, user: &str, password: &str) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.salt.as_bytes());
        self.user == user && hmac::verify(&key, password.as_bytes(), &self.hash).is_ok()
    }
}

impl Whitelist {
    /// Adds `USER:METHOD,METHOD…`. If a user is named twice, only the methods of both lists count.
    pub fn add(&mut self, text: &str) {
        let (user, methods) =
            text.split_once(':').map_or((text, None), |(user, all)| (user, Some(all)));
        let known = self.methods.contains_key(user);
        let list = self.methods.entry(user.to_string()).or_default();
        if let Some(methods) = methods {
            let new: BTreeSet<String> = methods.split([',', ' ']).map(str::to_string).collect();
            if known { list.retain(|method| new.contains(method)) } else { *list = new }
        }
    }

    /// Returns whether a user may call every method.
    pub(crate) fn allows_all(&self, user: &str) -> bool {
        !self.refuses_others && !self.methods.contains_key(user)
    }

    /// Returns whether a user may call a method.
    pub(crate) fn allows(&self, user: &str, method: &str) -> bool {
        match self.methods.get(user) {
            Some(methods) => methods.contains(method),
            None => !self.refuses_others,
        }
    }
}

/// Returns who has sent a request with this `Authorization` header.
pub(crate) fn identify(header: Option<&[u8]>, credentials: &[Credential]) -> Identity {
    let Some(header) = header else { return Identity::Unnamed };
    let find = || {
        let text = std::str::from_utf8(header).ok()?.strip_prefix("Basic ")?.trim();
        let pair = String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok()?;
        let (user, password) = pair.split_once(':')?;
        credentials.iter().any(|known| known.is_of(user, password)).then(|| user.to_string())
    };
    find().map_or(Identity::Wrong, Identity::User)
}

/// Returns random bytes.
///
/// # Errors
/// The system has none.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Core's share/rpcauth/rpcauth.py prints it for the user `me` and the password `secret`.
    const RPCAUTH: &str = "me:0123456789abcdef0123456789abcdef$\
                           0ad814968caefdecab8a6c0c55414688fdcad02f100ee7ac5def2352aaff36e5";

    fn basic(pair: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    }

    #[test]
    fn a_password_is_known_by_its_hash() {
        let salt = *b"\x01\x23\x45\x67\x89\xab\xcd\xef\x01\x23\x45\x67\x89\xab\xcd\xef";
        let made = Credential::salted("me", "secret", salt);
        let parsed = Credential::parse(RPCAUTH).unwrap();
        assert_eq!(made, parsed);
        let who = |header: &str| identify(Some(header.as_bytes()), std::slice::from_ref(&parsed));
        assert_eq!(who(&basic("me:secret")), Identity::User("me".to_string()));
        for wrong in ["me:Secret", "you:secret", "me", ":", "me:secret:"] {
            assert_eq!(who(&basic(wrong)), Identity::Wrong, "{wrong}");
        }
        for wrong in ["", "Basic", "Basic !", "Bearer x"] {
            assert_eq!(who(wrong), Identity::Wrong, "{wrong}");
        }
        assert_eq!(identify(None, &[]), Identity::Unnamed);
    }

    #[test]
    fn other_forms_of_rpcauth_are_refused() {
        for wrong in ["", "me", "me:salt", "me:a$b$c", "a:b:c$d", "me$salt:hash"] {
            assert_eq!(Credential::parse(wrong), None, "{wrong}");
        }
        let upper = Credential::parse(&RPCAUTH.to_uppercase().replace("ME:", "me:")).unwrap();
        assert!(!upper.is_of("me", "secret"));
    }

    #[test]
    fn a_user_on_the_whitelist_calls_nothing_else() {
        let mut list = Whitelist::default();
        list.add("a:getblockcount,help");
        list.add("a:help, stop");
        list.add("b");
        assert!(list.allows("a", "help") && !list.allows("a", "getblockcount"));
        assert!(!list.allows("a", "stop") && !list.allows("b", "help"));
        assert!(list.allows("c", "help"));
        assert!(list.allows_all("c") && !list.allows_all("a") && !list.allows_all("b"));
        list.refuses_others = true;
        assert!(!list.allows("c", "help"));
    }
}
