//! The text of an NFO file, by its byte order mark, its declaration, or its bytes.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes at the start of a file that may hold its XML declaration.
const DECLARATION_BYTES: usize = 200;

/// Decodes a file. Invalid UTF-8 is read as Windows-1252, which covers Latin-1.
pub(super) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    if let Some((encoding, mark_bytes)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[mark_bytes..]).0;
    }
    let encoding = match bytes {
        [b'<', 0, ..] => UTF_16LE,
        [0, b'<', ..] => UTF_16BE,
        _ => declared_encoding(bytes).unwrap_or(UTF_8),
    };
    let encoding = if encoding == UTF_8 && std::str::from_utf8(bytes).is_err() { WINDOWS_1252 } else { encoding };
    encoding.decode_without_bom_handling(bytes).0
}

/// The encoding of the XML declaration. A declared UTF-16 is an error of the writer, because the declaration was legible.
fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES)];
    let head = String::from_utf8_lossy(head);
    let declaration = head.trim_start().strip_prefix("<?xml")?.split("?>").next()?;
    let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let label = value[1..].split(quote).next()?;
    Encoding::for_label(label.as_bytes()).filter(|encoding| ![UTF_16LE, UTF_16BE].contains(encoding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_is_found() {
        let text = "<?xml version=\"1.0\"?><movie><title>Amélie – 天</title></movie>";
        let utf16 = |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
        let (little, big) = (utf16(u16::to_le_bytes), utf16(u16::to_be_bytes));
        for bytes in [
            text.as_bytes(),
            &[b"\xef\xbb\xbf", text.as_bytes()].concat(),
            &little,
            &big,
            &[b"\xff\xfe", &little[..]].concat(),
            &[b"\xfe\xff", &big[..]].concat(),
        ] {
            assert_eq!(decode(bytes), text);
        }
        let latin = |head: &str| [head.as_bytes(), b"<title>Am\xe9lie</title>"].concat();
        for head in ["", "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>", "<?xml encoding = 'latin1'?>"] {
            assert_eq!(decode(&latin(head)), format!("{head}<title>Amélie</title>"));
        }
        let cyrillic = b"<?xml version='1.0' encoding='windows-1251'?>\xcc\xe8\xf0";
        assert!(decode(cyrillic).ends_with("Мир"));
        // As .NET writes it into a file of UTF-8.
        let mislabelled = "<?xml version=\"1.0\" encoding=\"utf-16\"?><title>é</title>";
        assert_eq!(decode(mislabelled.as_bytes()), mislabelled);
        for odd in
            [&b""[..], b"<", b"<\0", b"\xff\xfe", b"<?xml encoding", b"<?xml encoding=", b"<?xml encoding=\"\xff"]
        {
            decode(odd);
        }
    }
}
