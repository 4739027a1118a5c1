//! Turns requests into recordings and series rules.

use std::sync::Arc;

use super::{MOST, MOST_RULES, Recordings, airings, wake};
use crate::domain::channel::Channel;
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::recording::{GuideAiring, RetentionLimit, MAX_LENGTH_MS, Padding, Recording, SeriesRule, RecordingState, WrittenRange};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::random_bytes;

/// How far ahead rules are applied, ms.
const PLANNED_MS: i64 = 7 * 24 * 3_600_000;

/// Most recordings that a rule schedules at once.
const MOST_AT_ONCE: usize = 50;

/// The target of a single recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// An entry of the guide.
    Entry(String),
    /// Start and end, Unix milliseconds.
    Span(i64, i64),
}

/// A request for a recording, a series, or both.
#[derive(Clone, Debug)]
pub struct Asked {
    pub channel_id: u32,
    pub user_id: String,
    pub wish: Option<Wish>,
    pub padding: Padding,
    /// Title of a series, and whether to record new episodes only.
    pub series: Option<(String, bool)>,
    pub keep: RetentionLimit,
}

/// The scheduled recording and rule.
#[derive(Clone, Debug)]
pub struct Made {
    /// The requested recording, or the first one a new rule scheduled.
    pub recording: Option<Recording>,
    pub rule: Option<SeriesRule>,
}

impl Service {
    /// Schedules a recording, a series, or both.
    ///
    /// # Errors
    /// `CHANNEL_NOT_FOUND`; `NOT_FOUND` for an entry that is not in the guide; `VALIDATION_ERROR`; `CONFLICT` if no
    /// recordings folder is configured or there are too many recordings or rules; `STORAGE_FULL`.
    pub async fn record(self: &Arc<Self>, asked: Asked) -> Result<Made> {
        let recordings = &self.recordings;
        recordings.shelf()?;
        let channel = self.channels.get(asked.channel_id)?;
        self.check_recordable(&channel)?;
        let airing = asked.wish.as_ref().map(|wish| self.wished(&channel, wish)).transpose()?;
        let now_ms = self.clock.now().as_millisecond();
        if let Some(airing) = &airing {
            self.check_span(airing, &asked.padding, now_ms)?;
            if channel.external.is_some() && airing.end_ms + asked.padding.after_ms <= now_ms {
                return Err(Error::field(
                    "end",
                    "must be in the future: an external channel can only be recorded while it is on air",
                ));
            }
        }
        if recordings.all().len() >= MOST {
            return Err(Error::new(
                Code::Conflict,
                format!("there are already {MOST} recordings, the most allowed; delete some first"),
            ));
        }
        let mut rule = match &asked.series {
            None => None,
            Some(_) if recordings.rules().len() >= MOST_RULES => {
                return Err(Error::new(
                    Code::Conflict,
                    format!("there are already {MOST_RULES} series rules, the most allowed; delete some first"),
                ));
            }
            Some((title, new_only)) => Some(SeriesRule {
                id: format!("ser_{}", data_encoding::HEXLOWER.encode(&random_bytes::<8>())),
                channel_id: channel.id,
                user_id: asked.user_id.clone(),
                title: title.clone(),
                new_only: *new_only,
                padding: asked.padding,
                retention: asked.keep,
                created_ms: now_ms,
                handled_keys: Vec::new(),
            }),
        };
        let mut recording = None;
        if let Some(airing) = &airing {
            let of_rule = rule.as_ref().filter(|rule| rule.matches(&GuideAiring { is_new: true, ..airing.clone() }));
            let keep = RetentionLimit { max_count: asked.keep.max_count.filter(|_| of_rule.is_some()), ..asked.keep };
            let one = Recording {
                rule_id: of_rule.map(|rule| rule.id.clone()),
                retention: keep,
                ..fresh(airing, channel.id, &asked.user_id, asked.padding, now_ms)
            };
            if one.rule_id.is_some()
                && let Some(rule) = &mut rule
            {
                rule.mark_handled(airing);
            }
            recording = Some(one);
        }
        {
            let _editing = recordings.editing.lock().await;
            recordings.put_together(rule.clone(), recording.iter().cloned().collect(), &[]).await?;
        }
        if let Some(rule) = &rule {
            // The rule is stored, so the request succeeded; the maintenance task plans again.
            if let Err(fault) = self.plan(&rule.id).await {
                tracing::warn!(rule.id, %fault, "a new series rule could not be planned; will retry");
            }
            let first = || recordings.all().into_iter().rev().find(|one| one.rule_id.as_deref() == Some(&rule.id));
            recording = recording.or_else(first);
        }
        wake(self);
        recordings.call.notify_one();
        Ok(Made { recording, rule })
    }

    fn wished(&self, channel: &Channel, wish: &Wish) -> Result<GuideAiring> {
        match wish {
            Wish::Entry(entry) => airings::named(self, channel, entry)
                .ok_or_else(|| Error::new(Code::NotFound, "the guide of this channel has no such entry")),
            Wish::Span(start_ms, end_ms) => {
                let (start_ms, end_ms) = (*start_ms, *end_ms);
                if end_ms <= start_ms {
                    return Err(Error::field("end", "must be later than start"));
                }
                let on = airings::mostly(channel, start_ms, end_ms);
                let on = on.filter(|on| on.start_ms < end_ms && on.end_ms > start_ms);
                let title = on.as_ref().map_or_else(|| channel.settings.name.to_string(), |on| on.title.clone());
                let (subtitle, season, episode) =
                    on.map_or((None, None, None), |on| (on.subtitle, on.season, on.episode));
                let item = format!("{start_ms}");
                Ok(GuideAiring { guide_entry_id: None, title, subtitle, season, episode, start_ms, end_ms, content_key: item, is_new: false })
            }
        }
    }

    /// Whether a span can still be recorded.
    fn check_span(&self, airing: &GuideAiring, padding: &Padding, now_ms: i64) -> Result<()> {
        if airing.end_ms - airing.start_ms > MAX_LENGTH_MS {
            return Err(Error::field("end", format!("must be at most {} h after start", MAX_LENGTH_MS / 3_600_000)));
        }
        // The past is recorded from catch-up segments, as far back as those can be produced.
        if airing.start_ms - padding.before_ms < now_ms - CATCHUP_MS {
            return Err(Error::field("start", "must not be older than the catch-up window"));
        }
        Ok(())
    }

    /// Schedules the airings that match a rule, and removes scheduled recordings whose airing moved or vanished.
    pub(super) async fn plan(&self, id: &str) -> Result<()> {
        let recordings = &self.recordings;
        let _editing = recordings.editing.lock().await;
        let Ok(mut rule) = recordings.rule(id) else { return Ok(()) };
        let Ok(channel) = self.channels.get(rule.channel_id) else { return Ok(()) };
        let now_ms = self.clock.now().as_millisecond();
        let on = airings::between(&channel, now_ms, now_ms + PLANNED_MS);
        let before = rule.clone();
        let stale = recordings.stale(&rule, &on);
        for moved in &stale {
            rule.unmark_handled(moved.start_ms, &moved.content_key);
        }
        let kept = recordings.all().len() - stale.len();
        let mut fresh_ones = Vec::new();
        for airing in on.iter().filter(|airing| airing.end_ms - airing.start_ms <= MAX_LENGTH_MS) {
            if fresh_ones.len() >= MOST_AT_ONCE || kept + fresh_ones.len() >= MOST {
                break;
            }
            if rule.matches(airing) {
                rule.mark_handled(airing);
                let one = fresh(airing, channel.id, &rule.user_id, rule.padding, now_ms);
                fresh_ones.push(Recording { rule_id: Some(rule.id.clone()), retention: rule.retention, ..one });
            }
        }
        // In one transaction: a recording that the rule does not remember would be scheduled again.
        recordings.put_together((rule != before).then_some(rule), fresh_ones, &stale).await
    }
}

impl Recordings {
    /// Scheduled recordings of a rule whose airing is no longer in the guide as it was.
    fn stale(&self, rule: &SeriesRule, on: &[GuideAiring]) -> Vec<Recording> {
        // Airings outside the examined range may still be in the guide.
        let (from, to) = on.first().zip(on.last()).map_or((0, 0), |(first, last)| (first.start_ms, last.end_ms));
        let stands = |one: &Recording| {
            !(from..to).contains(&one.start_ms)
                || on.iter().any(|airing| {
                    (airing.start_ms, airing.end_ms, &airing.title) == (one.start_ms, one.end_ms, &one.title)
                })
        };
        let of_rule = |one: &Recording| one.rule_id.as_deref() == Some(&*rule.id) && one.state == RecordingState::Scheduled;
        self.all().into_iter().filter(|one| of_rule(one) && !stands(one)).collect()
    }
}

fn fresh(airing: &GuideAiring, channel_id: u32, user_id: &str, padding: Padding, now_ms: i64) -> Recording {
    Recording {
        id: format!("rec_{}", data_encoding::HEXLOWER.encode(&random_bytes::<8>())),
        channel_id,
        user_id: user_id.to_owned(),
        title: airing.title.clone(),
        subtitle: airing.subtitle.clone(),
        season: airing.season,
        episode: airing.episode,
        guide_entry_id: airing.guide_entry_id.clone(),
        content_key: airing.content_key.clone(),
        start_ms: airing.start_ms,
        end_ms: airing.end_ms,
        padding,
        rule_id: None,
        retention: RetentionLimit::default(),
        state: RecordingState::Scheduled,
        failure: None,
        path: None,
        written_range: WrittenRange::default(),
        created_ms: now_ms,
        ended_ms: None,
    }
}
