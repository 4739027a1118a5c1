#![doc = include_str!("README.md")]

/// Defines an enum whose values have the same name in the API and in records.
macro_rules! named_values {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$value_meta:meta])* $value:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $type { $($(#[$value_meta])* #[serde(rename = $name)] $value),+ }

        impl $type {
            /// The name in the API and in records.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $name),+ }
            }

            /// The value with this name.
            pub fn parse(name: &str) -> Option<Self> {
                [$(Self::$value),+].into_iter().find(|value| value.as_str() == name)
            }
        }
    };
}

pub mod access;
pub mod account;
pub mod address;
pub mod audio_layout;
pub mod bitmap_subtitles;
pub mod bytes;
pub mod catalogue;
pub mod channel;
pub mod channel_clock;
pub mod channel_follow;
pub mod channel_logo;
pub mod channel_rule;
pub mod channel_state;
pub mod closed_captions;
pub mod cmaf;
pub mod codec;
pub mod ebml;
pub mod encode_slots;
pub mod external;
pub mod forwarded_client;
pub mod g711;
pub mod grid;
pub mod guide;
pub mod histogram;
pub mod household;
pub mod image;
pub mod ingest;
pub mod library;
pub mod lineup;
pub mod listing;
pub mod live_cmaf;
pub mod live_window;
pub mod m3u;
pub mod marks;
pub mod media;
pub mod media_folder;
pub mod mpeg4_video;
pub mod mpegps;
pub mod mpegts;
pub mod nfo;
pub mod plan;
pub mod playback;
pub mod playlist;
pub mod preferences;
pub mod progress;
pub mod range;
pub mod recording;
pub mod rights;
pub mod scene_breaks;
pub mod schedule;
pub mod seek_previews;
pub mod segment_format;
pub mod sei;
pub mod session;
pub mod signing;
pub mod slate_canvas;
pub mod sniff;
pub mod source;
pub mod ssdp;
pub mod ssrf;
pub mod status_series;
pub mod subtitles;
pub mod throttle;
pub mod time;
pub mod trace;
pub mod traffic;
pub mod video_class;
pub mod visibility;
pub mod worker;
pub mod xmltv;

/// For `skip_serializing_if`: records leave out default values.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The first eight bytes of a hash.
pub(crate) fn hash_to_u64(hash: blake3::Hash) -> u64 {
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("eight of thirty-two"))
}

/// Makes a map anew with full nodes. One that grew in order is almost half empty, one that grew at random a third.
pub(crate) fn compact_map<K: Ord, V>(map: &mut std::collections::BTreeMap<K, V>) {
    *map = std::mem::take(map).into_iter().collect();
}

/// 1 if both are 0.
pub(crate) fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
