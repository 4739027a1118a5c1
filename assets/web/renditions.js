// The renditions of a session or a channel in fMP4: audio tracks and text subtitles that change without a new session. hls.js loads them.
// `subtitle-view.js` draws the cues, because hls.js loads a `data:` URL into the tracks that it creates, which the CSP forbids.

/** The text track of each media element that shows the cues. It cannot be removed, so the next session uses it again. */
const textTracks = new WeakMap();

/** The position of an audio stream in the session's audio group; -1 if it is no rendition. */
export const audioPosition = (renditions, streamIndex) => renditions.audio.findIndex((rendition) => rendition.streamIndex === streamIndex);

/** The position of a subtitle of the media info in the session's subtitle group; -1 if it is no rendition. */
export const subtitlePosition = (renditions, { streamIndex, file }) => renditions.subtitles.findIndex((rendition) =>
  (Number.isInteger(streamIndex) ? rendition.streamIndex === streamIndex : Boolean(file) && rendition.path?.split("/").at(-1) === file));

/** The index of the n-th rendition in a list of hls.js, which may have several groups with the same renditions each. */
export function indexInGroup(tracks, currentIndex, position) {
  const { groupId } = tracks[currentIndex] ?? tracks[0] ?? {};
  return tracks.indexOf(tracks.filter((track) => track.groupId === groupId)[position]);
}

/** Most cues that are kept of a subtitle: a film has some 2,000, a channel has no end. */
const MAX_CUES = 4000;

/** The `renditions` of a channel, from the tracks of its playlist; their positions stand for streams. */
export const describeTracks = ({ audioTracks, subtitleTracks }) => {
  const describe = (tracks) => tracks.map(({ lang, name }, streamIndex) => ({ streamIndex, language: lang || null, name }));
  return { audio: describe(audioTracks), subtitles: describe(subtitleTracks) };
};

export class Renditions {
  /** `description` is `renditions` of the start response. */
  constructor(hls, Hls, media, description) {
    this.hls = hls;
    this.description = description;
    this.textTrack = textTracks.get(media) ?? media.addTextTrack("subtitles");
    textTracks.set(media, this.textTrack);
    this.audio = null; // The requested positions; null: the server's choice.
    this.subtitle = -1;
    this.cues = new Map(); // Those loaded so far: by position, then by id.
    this.shown = -1; // The position whose cues are in the text track.
    /** @type {(audio: any) => void} */
    this.onAudioChange = () => {};
    hls.on(Hls.Events.AUDIO_TRACKS_UPDATED, () => this.applyAudio());
    hls.on(Hls.Events.AUDIO_TRACK_SWITCHED, () => this.onAudioChange(this.activeAudio()));
    // hls.js makes its own choice right after this event.
    hls.on(Hls.Events.SUBTITLE_TRACKS_UPDATED, () => queueMicrotask(() => this.applySubtitle()));
    hls.on(Hls.Events.CUES_PARSED, (_, { type, cues, subtitleTrack }) => type === "subtitles" && this.addCues(subtitleTrack, cues));
  }

  /** The stream index of the audio that plays. */
  activeAudio() {
    const { audioTracks, audioTrack } = this.hls;
    const group = audioTracks.filter(({ groupId }) => groupId === audioTracks[audioTrack]?.groupId);
    const position = this.audio ?? Math.max(0, group.indexOf(audioTracks[audioTrack]));
    return this.description.audio[position]?.streamIndex ?? null;
  }

  /** Changes the audio; false if the session has no rendition of this stream. */
  selectAudio(streamIndex) {
    const position = audioPosition(this.description, streamIndex);
    if (position < 0) return false;
    this.audio = position;
    this.applyAudio();
    return true;
  }

  applyAudio() {
    if (this.audio === null) return;
    const index = indexInGroup(this.hls.audioTracks, this.hls.audioTrack, this.audio);
    if (index >= 0 && index !== this.hls.audioTrack) this.hls.audioTrack = index;
  }

  /** Shows a subtitle of the media info, or none; false if the session has no rendition of it. */
  selectSubtitle(subtitle) {
    const position = subtitle ? subtitlePosition(this.description, subtitle) : -1;
    this.subtitle = position;
    this.applySubtitle();
    return position >= 0;
  }

  applySubtitle() {
    if (!this.hls.media) return; // Destroyed meanwhile.
    this.hls.subtitleTrack = indexInGroup(this.hls.subtitleTracks, this.hls.subtitleTrack, this.subtitle);
    this.showCues(this.subtitle);
  }

  showCues(position) {
    if (position === this.shown) return;
    const cuesOf = (of) => this.cues.get(of)?.values() ?? [];
    for (const cue of cuesOf(this.shown)) this.textTrack.removeCue(cue);
    this.shown = position;
    this.textTrack.mode = position < 0 ? "disabled" : "hidden";
    for (const cue of cuesOf(position)) this.textTrack.addCue(cue);
  }

  /** Cues of a segment. hls.js does not load it again, so they are kept when another subtitle is shown. */
  addCues(hlsTrack, cues) {
    const position = this.hls.subtitleTracks.filter(({ groupId }) => groupId === hlsTrack.groupId).indexOf(hlsTrack);
    if (!this.cues.has(position)) this.cues.set(position, new Map());
    const loaded = this.cues.get(position);
    for (const cue of cues) {
      if (loaded.has(cue.id)) continue; // A cue is in every segment that it overlaps.
      loaded.set(cue.id, cue);
      if (position === this.shown) this.textTrack.addCue(cue);
    }
    for (const [id, cue] of loaded) {
      if (loaded.size <= MAX_CUES) break;
      loaded.delete(id);
      if (position === this.shown) this.textTrack.removeCue(cue);
    }
  }

  /** Hides the subtitle. */
  close() {
    this.showCues(-1);
  }
}
