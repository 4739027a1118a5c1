//! Converts G.711 audio of telephones and most cameras (ITU-T G.711) to linear PCM that any decoder accepts.

const OUTPUT_HERTZ: u32 = 48_000;

/// Most input samples per packet: the packet header states its length in 16 bits.
pub const MAX_SAMPLES: usize = 1024;

/// Companding law: how a byte encodes a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompandingLaw {
    A,
    Mu,
}

/// Converts G.711 bytes to packets of 16-bit stereo at 48 kHz in the Blu-ray LPCM format. MPEG-TS has no other way to
/// carry linear PCM.
#[derive(Debug)]
pub struct G711Decoder {
    law: CompandingLaw,
    /// Output samples per input sample.
    upsampling: i32,
    last_sample: i32,
}

impl G711Decoder {
    /// None unless `rate` (samples per second) is at least 8000 and divides 48,000.
    pub fn new(law: CompandingLaw, rate: u32) -> Option<Self> {
        let is_supported = rate >= 8000 && OUTPUT_HERTZ.is_multiple_of(rate);
        is_supported.then(|| Self { law, upsampling: (OUTPUT_HERTZ / rate) as i32, last_sample: 0 })
    }

    /// Converts up to [`MAX_SAMPLES`] bytes to one packet; further bytes are dropped.
    pub fn decode_packet(&mut self, bytes: &[u8]) -> Vec<u8> {
        let bytes = &bytes[..bytes.len().min(MAX_SAMPLES)];
        let length = bytes.len() * self.upsampling as usize * 4;
        let mut out = Vec::with_capacity(4 + length);
        out.extend_from_slice(&(length as u16).to_be_bytes());
        // Two channels, 48 kHz, 16 bits.
        out.extend_from_slice(&[0x31, 0x40]);
        for &byte in bytes {
            let next = match self.law {
                CompandingLaw::A => decode_a_law(byte),
                CompandingLaw::Mu => decode_mu_law(byte),
            };
            for step in 1..=self.upsampling {
                let sample = (self.last_sample + (next - self.last_sample) * step / self.upsampling) as i16;
                out.extend_from_slice(&sample.to_be_bytes());
                out.extend_from_slice(&sample.to_be_bytes());
            }
            self.last_sample = next;
        }
        out
    }
}

/// Decodes sign, three bits of exponent and four of mantissa, with every other bit inverted.
fn decode_a_law(byte: u8) -> i32 {
    let code = i32::from(byte ^ 0x55);
    let (exponent, mantissa) = (code >> 4 & 7, code & 15);
    let magnitude = match exponent {
        0 => mantissa * 16 + 8,
        _ => (mantissa * 16 + 264) << (exponent - 1),
    };
    if code & 0x80 != 0 { magnitude } else { -magnitude }
}

/// Decodes sign, exponent and mantissa, with all bits inverted and a bias of 132.
fn decode_mu_law(byte: u8) -> i32 {
    let code = i32::from(!byte);
    let magnitude = ((((code & 15) << 3) + 132) << (code >> 4 & 7)) - 132;
    if code & 0x80 != 0 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_laws_match_the_itu_tables() {
        let mu = [(0xff, 0), (0x7f, 0), (0x00, -32124), (0x80, 32124), (0xef, 132), (0xce, 988)];
        let a = [(0xd5, 8), (0x55, -8), (0xaa, 32256), (0x2a, -32256), (0xc5, 264), (0x80, 5504)];
        for (byte, sample) in mu {
            assert_eq!(decode_mu_law(byte), sample, "{byte:#x}");
        }
        for (byte, sample) in a {
            assert_eq!(decode_a_law(byte), sample, "{byte:#x}");
        }
    }

    #[test]
    fn a_packet_has_an_lpcm_header() {
        let mut decoder = G711Decoder::new(CompandingLaw::Mu, 8000).unwrap();
        let packet = decoder.decode_packet(&[0x80, 0x80]);
        assert_eq!(packet[..8], [0, 48, 0x31, 0x40, 20, 234, 20, 234], "a sixth of 32124, on both channels");
        assert_eq!((packet.len(), &packet[48..]), (52, &[125, 124, 125, 124][..]));
        assert_eq!(decoder.decode_packet(&[0xff; 5000]).len(), 4 + MAX_SAMPLES * 24);
        assert!(G711Decoder::new(CompandingLaw::A, 16_000).is_some());
        assert!([0, 11_025, 1].iter().all(|rate| G711Decoder::new(CompandingLaw::A, *rate).is_none()));
    }
}
