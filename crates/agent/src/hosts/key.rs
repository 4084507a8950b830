//! Keys by which agents of different hosts authenticate each other: X25519, in base64 like WireGuard's keys.

use base64ct::{Base64, Encoding};
use core::fmt;
use core::str::FromStr;
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bytes of a key.
const LEN: usize = 32;

/// Secret key of an agent.
#[derive(Clone)]
pub struct SecretKey([u8; LEN]);

/// Public key of an agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; LEN]);

/// Reason why a key is invalid or cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or created.
    #[error(transparent)]
    File(#[from] io::Error),
    /// Other users may read the file.
    #[error("users other than the owner may read this file (mode {0:o}); run chmod 600")]
    Readable(u32),
    /// The text is not 32 bytes in base64.
    #[error("expected a key: 32 bytes in base64, 44 characters")]
    Text,
}

fn decode(text: &str) -> Result<[u8; LEN], KeyError> {
    let mut key = [0; LEN];
    match Base64::decode(text.trim(), &mut key) {
        Ok(bytes) if bytes.len() == LEN => Ok(key),
        _ => Err(KeyError::Text),
    }
}

impl SecretKey {
    /// Returns a new random key.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn generate() -> Result<SecretKey, KeyError> {
        let mut key = [0; LEN];
        match sovia_sys::call::getrandom(&mut key) {
            Ok(LEN) => Ok(SecretKey(key)),
            _ => Err(KeyError::File(io::Error::other("cannot get random bytes from the kernel"))),
        }
    }

    /// Reads the key from a file. No user but the file's owner may have access to it.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn read(path: &Path) -> Result<SecretKey, KeyError> {
        let file = std::fs::File::open(path)?;
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Readable(mode));
        }
        let mut text = String::new();
        (&file).take(1024).read_to_string(&mut text)?;
        decode(&text).map(SecretKey)
    }

    /// Writes the key to a new file. Creates the file's folder if necessary.
    ///
    /// # Errors
    /// [`KeyError::File`]: no file with this key exists then.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        // Write the text in one call and sync it before anyone uses the public key.
        let text = format!("{}\n", Base64::encode_string(&self.0));
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.inspect_err(|_| {
            // A truncated key is useless, and its file would block the next attempt.
            let _ = std::fs::remove_file(path);
        })?;
        Ok(())
    }

    /// Returns the public key that belongs to this key.
    pub fn public(&self) -> PublicKey {
        let mut public = [0; LEN];
        // This always succeeds: snow has X25519 built in.
        if let Some(mut x25519) = DefaultResolver.resolve_dh(&DHChoice::Curve25519) {
            x25519.set(&self.0);
            public.copy_from_slice(x25519.pubkey());
        }
        PublicKey(public)
    }

    pub(super) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

/// Prints nothing of the key.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

impl PublicKey {
    pub(super) fn of(bytes: [u8; LEN]) -> PublicKey {
        PublicKey(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        decode(text).map(PublicKey)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Base64::encode_string(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748, section 6.1: Alice's keys.
    #[test]
    fn public_key_is_that_of_x25519() {
        let secret = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        let key = SecretKey(decode(secret).unwrap());
        assert_eq!(key.public().to_string(), public);
        assert_eq!(public.parse::<PublicKey>().unwrap(), key.public());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        for text in ["", "key", &public[1..], &public[..43], &format!("{public}A")] {
            assert!(text.parse::<PublicKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn key_file_is_for_its_owner_alone() {
        let folder = std::env::temp_dir().join(format!("sovia-key-{}", std::process::id()));
        let path = folder.join("made").join("key");
        let key = SecretKey::generate().unwrap();
        key.write_new(&path).unwrap();
        assert_eq!(SecretKey::read(&path).unwrap().public(), key.public());
        assert!(matches!(key.write_new(&path), Err(KeyError::File(_))), "another one's is kept");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SecretKey::read(&path), Err(KeyError::Readable(0o640))));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
