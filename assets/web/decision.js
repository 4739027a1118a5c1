// The play decision in plain words: what is converted, and why.

/** What a browser may not support; completes "unsupported …". */
const UNSUPPORTED = {
  CONTAINER: "file format",
  VIDEO_CODEC: "video format",
  VIDEO_PROFILE: "video profile",
  VIDEO_LEVEL: "video level",
  VIDEO_BIT_DEPTH: "colour depth",
  VIDEO_RANGE: "HDR video",
  VIDEO_RESOLUTION: "resolution",
  VIDEO_FRAMERATE: "frame rate",
  AUDIO_CODEC: "audio format",
  AUDIO_CHANNELS: "surround sound",
  SUBTITLE_CODEC: "subtitle format",
};

const REASONS = {
  INTERLACED: "interlaced video",
  ANAMORPHIC: "non-square pixels",
  BITRATE_EXCEEDS_LIMIT: "over your quality limit",
  SECONDARY_AUDIO_SELECTED: "you chose another audio track",
  START_FORCED: "you requested conversion",
};

/** What the server does for this playback, and why, e.g. "Converting audio (unsupported audio format)". */
export function describeDecision(decision) {
  if (!decision) return "";
  const converted = ["video", "audio"].filter((part) => decision[part] === "encode");
  const work = [
    converted.length > 0 && `converting ${joinWords(converted)}`,
    decision.subtitle === "burn" && "burning in subtitles",
  ].filter(Boolean);
  const head = work.length > 0 ? joinWords(work) : "streaming without conversion";
  const reasonList = reasonTexts(decision.reasons ?? []);
  return `${head[0].toUpperCase()}${head.slice(1)}${reasonList.length > 0 ? ` (${reasonList.join(", ")})` : ""}`;
}

/** The reasons of a play decision in plain words; everything the browser does not support is one reason. */
export function reasonTexts(codes = []) {
  const names = codes.map((code) => code.replace(/_NOT_SUPPORTED$/, ""));
  const subjects = [...new Set(names.map((name) => UNSUPPORTED[name]).filter(Boolean))];
  const others = names.filter((name) => !UNSUPPORTED[name]).map((name) => REASONS[name] ?? name.toLowerCase().replaceAll("_", " "));
  return [...new Set([...(subjects.length ? [`unsupported ${joinWords(subjects)}`] : []), ...others])];
}

function joinWords(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}
