// The device profile: what this browser can play, as the server's play decision expects it.

const canPlay = (type) => document.createElement("video").canPlayType(type) !== "";

const VIDEO = [
  { codec: "h264", type: 'video/mp4; codecs="avc1.640033"', profiles: ["constrained-baseline", "baseline", "main", "high"] },
  { codec: "hevc", type: 'video/mp4; codecs="hvc1.1.6.L153.B0"', tenBit: 'video/mp4; codecs="hvc1.2.4.L153.B0"' },
  { codec: "vp8", type: 'video/webm; codecs="vp8"' },
  { codec: "vp9", type: 'video/webm; codecs="vp09.00.50.08"', tenBit: 'video/webm; codecs="vp09.02.50.10"' },
  { codec: "av1", type: 'video/mp4; codecs="av01.0.12M.08"', tenBit: 'video/mp4; codecs="av01.0.12M.10"' },
];

const AUDIO = [
  { codec: "aac", type: 'audio/mp4; codecs="mp4a.40.2"' },
  { codec: "mp3", type: "audio/mpeg" },
  { codec: "opus", type: 'audio/webm; codecs="opus"' },
  { codec: "vorbis", type: 'audio/webm; codecs="vorbis"' },
  { codec: "flac", type: 'audio/mp4; codecs="flac"' },
  { codec: "ac3", type: 'audio/mp4; codecs="ac-3"' },
  { codec: "eac3", type: 'audio/mp4; codecs="ec-3"' },
  { codec: "alac", type: 'audio/mp4; codecs="alac"' },
  { codec: "pcm_s16le", type: 'audio/wav; codecs="1"' },
];

const CONTAINERS = [
  { name: "mp4", type: "video/mp4" },
  { name: "webm", type: "video/webm" },
  { name: "mp3", type: "audio/mpeg" },
  { name: "flac", type: "audio/flac" },
  { name: "ogg", type: "audio/ogg" },
  { name: "wav", type: "audio/wav" },
  { name: "adts", type: "audio/aac" },
];

/** The `deviceProfile` of a start request. */
export function deviceProfile() {
  const isHdrDisplay = matchMedia("(dynamic-range: high)").matches;
  return {
    containers: CONTAINERS.filter(({ type }) => canPlay(type)).map(({ name }) => name),
    video: VIDEO.filter(({ type }) => canPlay(type)).map(({ codec, profiles, tenBit }) => ({
      codec,
      profiles,
      bitDepths: tenBit && canPlay(tenBit) ? [8, 10] : [8],
      hdr: isHdrDisplay && tenBit && canPlay(tenBit) ? ["sdr", "hdr10", "hlg"] : ["sdr"],
    })),
    audio: AUDIO.filter(({ type }) => canPlay(type)).map(({ codec }) => ({ codec, maxChannels: 6 })),
    subtitles: ["vtt"],
  };
}
