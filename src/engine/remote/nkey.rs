//! Ed25519 public keys as NATS writes them (NKeys).

use data_encoding::BASE32_NOPAD;

/// The role of a key; its number is the first byte of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRole {
    /// Text begins with `A`.
    Account = 0,
    /// Text begins with `O`.
    Operator = 14 << 3,
    /// Text begins with `U`.
    User = 20 << 3,
}

/// The text of a public key: role, key and checksum in base32 without padding. Source: `strkey.go` of the Go library `nkeys`.
pub fn encode_public_key(role: KeyRole, key: &[u8]) -> String {
    let mut bytes = vec![role as u8];
    bytes.extend_from_slice(key);
    bytes.extend(crc16(&bytes).to_le_bytes());
    BASE32_NOPAD.encode(&bytes)
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let crc: u16 = crc ^ (u16::from(*byte) << 8);
        (0..8).fold(crc, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_as_by_the_library_of_nats() {
        assert_eq!(crc16(b"123456789"), 0x31C3, "the check value of the catalogue of CRC algorithms");
        // Keys of the examples of NATS: an account and a user.
        for (role, text) in [
            (KeyRole::Account, "ACZSWBJ4SYILK7QVDELO64VX3EFWB6CXCPMEBUKA36MJJQRPXGEEQ2WJ"),
            (KeyRole::User, "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"),
        ] {
            let bytes = BASE32_NOPAD.decode(text.as_bytes()).unwrap();
            assert_eq!(encode_public_key(role, &bytes[1..33]), text);
        }
    }
}
