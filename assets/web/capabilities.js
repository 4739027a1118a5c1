// The codecs that Media Source Extensions (MSE) decode here: the `capabilities` of a start request. The server puts only these
// into the segments of a session. `profile.js` is about whole files, which the media element plays by itself.

import { deviceProfile } from "./profile.js";

/** RFC 6381 codec strings. Those with `uhd` are for 2160p; the same codec without it is for at most 1080p. */
export const CODECS = [
  { codec: "avc1.640033" }, { codec: "avc1.640034" }, // H.264 High, levels 5.1 and 5.2.
  { codec: "avc1.6E0033" }, // H.264 High 10.
  { codec: "hvc1.1.6.L123.B0" }, { codec: "hvc1.1.6.L153.B0", uhd: true }, { codec: "hvc1.1.6.L180.B0", uhd: true }, // HEVC Main.
  { codec: "hvc1.2.4.L123.B0" }, { codec: "hvc1.2.4.L153.B0", uhd: true }, { codec: "hvc1.2.4.L180.B0", uhd: true }, // HEVC Main 10.
  { codec: "dvh1.05.06", uhd: true }, { codec: "dvh1.08.06", uhd: true }, // Dolby Vision.
  { codec: "av01.0.09M.08" }, { codec: "av01.0.13M.08", uhd: true }, { codec: "av01.0.16M.08", uhd: true },
  { codec: "av01.0.09M.10" }, { codec: "av01.0.13M.10", uhd: true }, { codec: "av01.0.16M.10", uhd: true },
  { codec: "vp09.00.41.08" }, { codec: "vp09.00.51.08", uhd: true }, { codec: "vp09.02.41.10" }, { codec: "vp09.02.51.10", uhd: true },
  { codec: "mp4a.40.2", isAudio: true }, { codec: "mp4a.40.5", isAudio: true }, // AAC-LC and HE-AAC.
  { codec: "opus", isAudio: true }, { codec: "flac", isAudio: true }, { codec: "alac", isAudio: true },
  { codec: "ac-3", isAudio: true }, { codec: "ec-3", isAudio: true },
];

/** @param {{ codec: string, isAudio?: boolean }} entry */
const contentType = ({ codec, isAudio }) => `${isAudio ? "audio" : "video"}/mp4; codecs="${codec}"`;

/** A film in 2160p as the server would encode it. */
const UHD_FILM = { width: 3840, height: 2160, bitrate: 16_000_000, framerate: 24 };

/** A browser that has not answered by then is not waited for, ms. */
const TIMEOUT_MS = 1000;

/**
 * The codec strings that are supported, each probed alone. One for 2160p is left out where the browser says of such a film that
 * it is decoded neither smoothly nor by hardware; an error or a late answer says nothing.
 */
export async function probeCodecs(isTypeSupported, decodingInfo) {
  const supported = CODECS.filter((entry) => isTypeSupported(contentType(entry)));
  const isTooSlow = await Promise.all(supported.map(async (entry) => {
    if (!entry.uhd) return false;
    try {
      const info = await decodingInfo({ type: "media-source", video: { contentType: contentType(entry), ...UHD_FILM } });
      return info.supported && !info.smooth && !info.powerEfficient;
    } catch {
      return false;
    }
  }));
  return supported.filter((_, n) => !isTooSlow[n]).map(({ codec }) => codec);
}

/** 7.1, which Chromium 156 and Firefox 153 play in AAC, Opus and FLAC (measured). */
const SURROUND = { contentType: 'audio/mp4; codecs="mp4a.40.2"', channels: "8", bitrate: 512_000, samplerate: 48_000 };

/** Codecs of video in which encoded video needs fewer bytes than in H.264, the best first, with a codec string for 1080p. */
const ENCODERS = [{ name: "av1", codec: "av01.0.09M.08" }, { name: "hevc", codec: "hvc1.1.6.L123.B0" }];

/** A film in 1080p as the server would encode it. */
const HD_FILM = { width: 1920, height: 1080, bitrate: 3_500_000, framerate: 25 };

/** The codecs that encoded video should have: those of the `supported` ones that hardware decodes, which costs the viewer nothing. */
export async function probeEncoders(supported, decodingInfo) {
  const isPreferred = await Promise.all(ENCODERS.map(async (entry) => {
    if (!supported.includes(entry.codec)) return false;
    try {
      const info = await decodingInfo({ type: "media-source", video: { contentType: contentType(entry), ...HD_FILM } });
      return info.supported && info.smooth && info.powerEfficient;
    } catch {
      return false;
    }
  }));
  return ENCODERS.filter((_, n) => isPreferred[n]).map(({ name }) => name);
}

async function probe() {
  // As hls.js chooses. Without MSE the browser plays HLS by itself, and the server goes by its User-Agent.
  const mediaSource = globalThis.ManagedMediaSource ?? globalThis.MediaSource;
  if (!mediaSource) return null;
  const timeout = new Promise((_, reject) => { setTimeout(reject, TIMEOUT_MS); });
  timeout.catch(() => {});
  const decodingInfo = async (configuration) => Promise.race([navigator.mediaCapabilities.decodingInfo(configuration), timeout]);
  const [codecs, surround] = await Promise.all([
    probeCodecs((type) => mediaSource.isTypeSupported(type), decodingInfo),
    decodingInfo({ type: "media-source", audio: SURROUND }).catch(() => null),
  ]);
  const encode = await probeEncoders(codecs, decodingInfo);
  return {
    codecs,
    ...(encode.length > 0 && { encode }),
    ...(surround?.supported && { maxAudioChannels: 8 }),
    hdr: matchMedia("(dynamic-range: high)").matches ? ["hdr10", "hlg"] : [],
    audioRenditions: true,
    textRenditions: true,
  };
}

/**
 * Channels of the audio output, 0 if they are unknown. Browsers log a warning about an AudioContext before the first click or key
 * press, so none is made until then.
 */
export function countSpeakers(isActivated, createContext) {
  if (!isActivated) return 0;
  try {
    const context = createContext();
    context.close().catch(() => {});
    return context.destination.maxChannelCount;
  } catch {
    return 0; // No audio output, or too many contexts.
  }
}

const countOutputChannels = () => countSpeakers(navigator.userActivation?.hasBeenActive, () => new AudioContext());

let probed = null;

/** Codecs that a channel copies. */
const isCopiedLive = (codec) => /^(hvc1|av01|vp09)\./.test(codec);

/** The query of a channel for hls.js; stereo while the audio output is unknown. */
export async function liveQuery() {
  const capabilities = await (probed ??= probe());
  const videoCodecs = capabilities?.codecs.filter(isCopiedLive).join(",");
  const videoRanges = capabilities?.hdr.join(",");
  return {
    format: "auto",
    maxAudioChannels: countOutputChannels() || 2,
    ...(videoCodecs && { videoCodecs }),
    ...(videoRanges && { videoRanges }),
  };
}

/** The `capabilities` of a start request; null without MSE. Codecs are probed once, the audio output may change. */
export async function probeCapabilities() {
  const capabilities = await (probed ??= probe());
  const aacChannels = capabilities && countOutputChannels();
  return aacChannels ? { ...capabilities, aacChannels } : capabilities;
}

/** The client to decide for, in requests for media info. */
export const describeClient = async () => ({ deviceProfile: deviceProfile(), capabilities: await probeCapabilities() });
