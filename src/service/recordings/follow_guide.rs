//! Recordings that were requested by an entry of the guide follow its programme: to another time while they wait, to another
//! end and title after they have started.

use super::airings;
use crate::domain::channel::Channel;
use crate::domain::recording::{GuideAiring, Recording, RecordingEvent, RecordingState};
use crate::error::{Code, Error};
use crate::service::Service;

/// The change a guide update makes to a recording.
#[derive(Debug, PartialEq, Eq)]
enum GuideChange {
    Keep,
    Follow(GuideAiring),
    /// Its programme is no longer in the guide. Another one in its place was not requested.
    Fail,
}

impl Service {
    /// Brings recordings by entry up to date with the guide.
    pub(super) async fn follow_entries(&self) {
        let recordings = &self.recordings;
        let now_ms = recordings.now_ms();
        // Rules replace what they scheduled themselves.
        let is_followed = |recording: &Recording| {
            recording.guide_entry_id.is_some()
                && (recording.state == RecordingState::Recording
                    || recording.state == RecordingState::Scheduled && recording.rule_id.is_none())
        };
        for recording in recordings.all().into_iter().filter(is_followed) {
            let Ok(channel) = self.channels.get(recording.channel_id) else { continue };
            let airing = match guide_change(&recording, &channel, now_ms) {
                GuideChange::Keep => continue,
                GuideChange::Follow(airing) => airing,
                GuideChange::Fail => {
                    let not_found = Error::new(Code::NotFound, "the programme is no longer in this channel's guide");
                    recordings.finish(&recording.id, RecordingEvent::Fail, Some(&not_found)).await;
                    continue;
                }
            };
            // It may have started or ended meanwhile.
            let (state, mut has_changed) = (recording.state, false);
            let follow = |one: &mut Recording| has_changed = one.state == state && one.follow(airing);
            let followed = recordings.edit(&recording.id, follow).await;
            match followed {
                Ok(followed) if has_changed => tracing::info!(
                    recording.id = followed.id,
                    followed.start_ms,
                    followed.end_ms,
                    "recording moved with its programme"
                ),
                Ok(_) => {}
                Err(fault) => {
                    tracing::warn!(recording.id = recording.id, %fault, "a recording could not follow its programme");
                }
            }
        }
    }
}

fn guide_change(recording: &Recording, channel: &Channel, now_ms: i64) -> GuideChange {
    let Some(entry) = recording.guide_entry_id.as_deref() else { return GuideChange::Keep };
    let has_begun = recording.state == RecordingState::Recording;
    let changes = |airing: &GuideAiring| recording.clone().follow(airing.clone());
    if let Some(airing) = airings::current_airing(channel, entry, recording.start_ms) {
        return if changes(&airing) { GuideChange::Follow(airing) } else { GuideChange::Keep };
    }
    if has_begun {
        // An external guide may correct the start as well, and with it the id.
        let airing = airings::airing_on_air(channel, &recording.content_key, now_ms, recording.end_ms)
            .filter(|_| channel.external.is_some());
        return airing.filter(changes).map_or(GuideChange::Keep, GuideChange::Follow);
    }
    if channel.external.is_some() || recording.start_ms < now_ms {
        return GuideChange::Keep;
    }
    airings::nearest_airing(channel, &recording.content_key, recording.start_ms, now_ms)
        .map_or(GuideChange::Fail, GuideChange::Follow)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::address::Address;
    use crate::domain::channel::tests::channel;
    use crate::domain::external::{ExternalChannel, ExternalOrigin, ExternalStream, ImportedEntry};
    use crate::domain::listing::{Listing, Listings};
    use crate::domain::recording::tests::recording;
    use crate::domain::schedule::ScheduleDefinition;

    const START_MS: i64 = 1_767_225_600_000;
    const HOUR_MS: i64 = 3_600_000;

    /// A listing between two instants, ms after `START_MS`.
    fn news(from_ms: i64, to_ms: i64) -> Listing {
        let (start_ms, end_ms) = (START_MS + from_ms, START_MS + to_ms);
        Listing { start_ms, end_ms, title: "News".into(), description: "Daily".into(), ..Listing::default() }
    }

    fn external(listings: Vec<Listing>) -> Channel {
        let url = Address::parse("http://antenna.example/one.ts").unwrap();
        let stream = ExternalStream { url, failover: Vec::new(), user_agent: None };
        let origin = ExternalOrigin::Source { id: 1, entry: ImportedEntry::default() };
        Channel {
            external: Some(Box::new(ExternalChannel { stream, origin, guide_channel: None })),
            listings: Some(Arc::new(Listings::from_unsorted(listings, 0))),
            definition: ScheduleDefinition::default(),
            ..channel(1)
        }
    }

    #[test]
    fn a_running_recording_follows_its_programme_and_not_the_next_airing_of_its_item() {
        let mut one = Recording {
            state: RecordingState::Recording,
            guide_entry_id: Some("1-0".into()),
            content_key: news(0, HOUR_MS).content_key(),
            ..recording("rec_a", 1, START_MS, START_MS + HOUR_MS)
        };
        // The guide corrects the start, and the same item airs again afterwards.
        let guide = external(vec![news(60_000, HOUR_MS), news(HOUR_MS, 2 * HOUR_MS)]);
        let now_ms = START_MS + HOUR_MS / 2;
        let GuideChange::Follow(airing) = guide_change(&one, &guide, now_ms) else { panic!("the programme is on air") };
        assert_eq!(airing.start_ms, START_MS + 60_000);
        assert!(one.follow(airing));
        assert_eq!(guide_change(&one, &guide, now_ms), GuideChange::Keep, "nothing new");
        assert_eq!(guide_change(&one, &guide, START_MS + HOUR_MS), GuideChange::Keep, "another airing");
        assert_eq!(one.end_ms, START_MS + HOUR_MS);
    }
}
