//! Recordings that were requested by an entry of the guide follow its programme: to another time while they wait, to another
//! end and title after they have started.

use super::airings;
use crate::domain::channel::Channel;
use crate::domain::recording::{Airing, Event, Recording, State};
use crate::error::{Code, Error};
use crate::service::Service;

/// The change a guide update makes to a recording.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Keep,
    Follow(Airing),
    /// Its programme is no longer in the guide. Another one in its place was not requested.
    Fail,
}

impl Service {
    /// Brings recordings by entry up to date with the guide.
    pub(super) async fn follow_entries(&self) {
        let recordings = &self.recordings;
        let now_ms = self.clock.now().as_millisecond();
        // Rules replace what they scheduled themselves.
        let follows = |one: &Recording| {
            one.entry.is_some()
                && (one.state == State::Recording || one.state == State::Scheduled && one.rule.is_none())
        };
        for one in recordings.all().into_iter().filter(follows) {
            let Ok(channel) = self.channels.get(one.channel_id) else { continue };
            let airing = match change(&one, &channel, now_ms) {
                Change::Keep => continue,
                Change::Follow(airing) => airing,
                Change::Fail => {
                    let gone = Error::new(Code::NotFound, "the programme is no longer in this channel's guide");
                    recordings.settle(&one.id, Event::Fail, Some(&gone), now_ms).await;
                    continue;
                }
            };
            // It may have started or ended meanwhile.
            let state = one.state;
            match recordings.edit(&one.id, |one| one.state == state && one.follow(airing)).await {
                Ok(followed) => tracing::info!(
                    recording.id = followed.id,
                    followed.start_ms,
                    followed.end_ms,
                    "recording moved with its programme"
                ),
                Err(fault) => {
                    tracing::warn!(recording.id = one.id, %fault, "a recording could not follow its programme");
                }
            }
        }
    }
}

fn change(one: &Recording, channel: &Channel, now_ms: i64) -> Change {
    let Some(entry) = one.entry.as_deref() else { return Change::Keep };
    let begun = one.state == State::Recording;
    if let Some(airing) = airings::current(channel, entry, one.start_ms) {
        return if one.clone().follow(airing.clone()) { Change::Follow(airing) } else { Change::Keep };
    }
    if begun {
        // An external guide may correct the start as well, and with it the id.
        let airing = airings::on_air(channel, &one.item, now_ms).filter(|_| channel.external.is_some());
        return airing.map_or(Change::Keep, Change::Follow);
    }
    if channel.external.is_some() || one.start_ms < now_ms {
        return Change::Keep;
    }
    airings::nearest(channel, &one.item, one.start_ms, now_ms).map_or(Change::Fail, Change::Follow)
}
