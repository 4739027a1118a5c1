//! Turns requests into recordings and series rules.

use std::sync::Arc;

use super::{MAX_RECORDINGS, MAX_RULES, Recordings, airings, start_maintenance};
use crate::domain::channel::Channel;
use crate::domain::guide::check_ahead;
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::recording::{
    GuideAiring, MAX_LENGTH_MS, Padding, Recording, RecordingState, RetentionLimit, SeriesRule, SeriesRuleChange,
};
use crate::domain::time::WallMs;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::accounts::random_bytes;

/// How far ahead rules are applied, ms.
const PLANNING_WINDOW_MS: i64 = 7 * 24 * 3_600_000;

/// Most recordings that a rule schedules at once.
const MAX_SCHEDULED_AT_ONCE: usize = 50;

/// The target of a single recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingTarget {
    /// An entry of the guide.
    Entry(String),
    /// Start and end, Unix milliseconds.
    Span(i64, i64),
}

/// A request for a recording, a series, or both.
#[derive(Clone, Debug)]
pub struct NewRecording {
    pub channel_id: u32,
    pub user_id: String,
    pub target: Option<RecordingTarget>,
    pub padding: Padding,
    /// Title of a series, and whether to record new episodes only.
    pub series: Option<(String, bool)>,
    pub retention: RetentionLimit,
}

/// The scheduled recording and rule.
#[derive(Clone, Debug)]
pub struct ScheduledRecording {
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
    pub async fn schedule_recording(self: &Arc<Self>, request: NewRecording) -> Result<ScheduledRecording> {
        let recordings = &self.recordings;
        recordings.folder()?;
        let channel = self.channels.get(request.channel_id)?;
        self.check_recordable(&channel)?;
        let now_ms = recordings.now_ms();
        let resolve = |target| resolve_target(&channel, target, &request.padding, now_ms);
        let airing = request.target.as_ref().map(resolve).transpose()?;
        if recordings.all().len() >= MAX_RECORDINGS {
            let message = format!("there are already {MAX_RECORDINGS} recordings, the most allowed; delete some first");
            return Err(Error::new(Code::Conflict, message));
        }
        let mut rule = match &request.series {
            None => None,
            Some(_) if recordings.rules().len() >= MAX_RULES => {
                let message =
                    format!("there are already {MAX_RULES} series rules, the most allowed; delete some first");
                return Err(Error::new(Code::Conflict, message));
            }
            Some((title, new_only)) => Some(SeriesRule {
                id: format!("ser_{}", data_encoding::HEXLOWER.encode(&random_bytes::<8>())),
                channel_id: channel.id,
                user_id: request.user_id.clone(),
                title: title.clone(),
                new_only: *new_only,
                padding: request.padding,
                retention: request.retention,
                created_ms: now_ms,
                handled_keys: Vec::new(),
            }),
        };
        let mut recording = None;
        if let Some(airing) = &airing {
            let matching = rule.as_ref().filter(|rule| rule.matches(&GuideAiring { is_new: true, ..airing.clone() }));
            let retention = RetentionLimit {
                max_count: request.retention.max_count.filter(|_| matching.is_some()),
                ..request.retention
            };
            let scheduled = Recording {
                rule_id: matching.map(|rule| rule.id.clone()),
                retention,
                ..new_recording(airing, channel.id, &request.user_id, request.padding, now_ms)
            };
            if scheduled.rule_id.is_some()
                && let Some(rule) = &mut rule
            {
                rule.mark_handled(airing);
            }
            recording = Some(scheduled);
        }
        {
            let _editing = recordings.edit_lock.lock().await;
            recordings.store_together(rule.clone(), recording.iter().cloned().collect(), &[]).await?;
        }
        if let Some(rule) = &rule {
            // The rule is stored, so the request succeeded; the maintenance task plans again.
            if let Err(fault) = self.plan_rule(&rule.id).await {
                tracing::warn!(rule.id, %fault, "a new series rule could not be planned; will retry");
            }
            let first = || recordings.all().into_iter().rev().find(|one| one.rule_id.as_deref() == Some(&rule.id));
            recording = recording.or_else(first);
        }
        start_maintenance(self);
        recordings.wake_signal.notify_one();
        Ok(ScheduledRecording { recording, rule })
    }

    /// Changes a series rule. Its recordings that have not begun are planned again if other programmes match; otherwise they
    /// get the new padding. All its recordings get the new limits.
    ///
    /// # Errors
    /// `NOT_FOUND`; `STORAGE_FULL`.
    pub async fn change_series_rule(self: &Arc<Self>, id: &str, change: SeriesRuleChange) -> Result<SeriesRule> {
        let recordings = &self.recordings;
        let rule = {
            let _editing = recordings.edit_lock.lock().await;
            let mut rule = recordings.rule(id)?;
            let is_planned_again = rule.apply(change);
            let of_rule = recordings.all().into_iter().filter(|one| one.rule_id.as_deref() == Some(id));
            let (removed, mut kept): (Vec<_>, Vec<_>) =
                of_rule.partition(|one| is_planned_again && one.state == RecordingState::Scheduled);
            removed.iter().for_each(|one| rule.unmark_handled(one.start_ms, &one.content_key));
            for recording in &mut kept {
                recording.retention = rule.retention;
                if recording.state == RecordingState::Scheduled {
                    recording.padding = rule.padding;
                }
            }
            recordings.store_together(Some(rule.clone()), kept, &removed).await?;
            rule
        };
        if let Err(fault) = self.plan_rule(id).await {
            tracing::warn!(rule.id, %fault, "a changed series rule could not be planned; will retry");
        }
        start_maintenance(self);
        recordings.wake_signal.notify_one();
        Ok(rule)
    }

    /// Schedules the airings that match a rule, and removes scheduled recordings whose airing moved or vanished.
    pub(super) async fn plan_rule(&self, id: &str) -> Result<()> {
        let recordings = &self.recordings;
        let _editing = recordings.edit_lock.lock().await;
        let Ok(mut rule) = recordings.rule(id) else { return Ok(()) };
        let Ok(channel) = self.channels.get(rule.channel_id) else { return Ok(()) };
        let now_ms = recordings.now_ms();
        let upcoming = airings::between(&channel, now_ms, now_ms + PLANNING_WINDOW_MS);
        let stored_rule = rule.clone();
        let stale = recordings.stale_recordings(&rule, &upcoming);
        for recording in &stale {
            rule.unmark_handled(recording.start_ms, &recording.content_key);
        }
        let kept_count = recordings.all().len() - stale.len();
        let mut new_recordings = Vec::new();
        for airing in upcoming.iter().filter(|airing| airing.end_ms - airing.start_ms <= MAX_LENGTH_MS) {
            if new_recordings.len() >= MAX_SCHEDULED_AT_ONCE || kept_count + new_recordings.len() >= MAX_RECORDINGS {
                break;
            }
            if rule.matches(airing) {
                rule.mark_handled(airing);
                let new = new_recording(airing, channel.id, &rule.user_id, rule.padding, now_ms);
                new_recordings.push(Recording { rule_id: Some(rule.id.clone()), retention: rule.retention, ..new });
            }
        }
        // In one transaction: a recording that the rule does not remember would be scheduled again.
        recordings.store_together((rule != stored_rule).then_some(rule), new_recordings, &stale).await
    }
}

fn resolve_target(channel: &Channel, target: &RecordingTarget, padding: &Padding, now_ms: i64) -> Result<GuideAiring> {
    match target {
        RecordingTarget::Entry(entry) => {
            let airing = airings::find_airing(channel, entry, now_ms)
                .ok_or_else(|| Error::new(Code::NotFound, "the guide of this channel has no such entry"))?;
            check_span(channel, (airing.start_ms, airing.end_ms), padding, now_ms)?;
            Ok(airing)
        }
        RecordingTarget::Span(start_ms, end_ms) => {
            let (start_ms, end_ms) = (*start_ms, *end_ms);
            if end_ms <= start_ms {
                return Err(Error::invalid_field("end", "must be later than start"));
            }
            check_span(channel, (start_ms, end_ms), padding, now_ms)?;
            let main_airing = airings::main_airing(channel, start_ms, end_ms);
            let overlapping = main_airing.filter(|airing| airing.start_ms < end_ms && airing.end_ms > start_ms);
            let title = overlapping.as_ref().map_or_else(|| channel.settings.name.to_string(), |one| one.title.clone());
            let (subtitle, season, episode) =
                overlapping.map_or((None, None, None), |airing| (airing.subtitle, airing.season, airing.episode));
            let content_key = format!("{start_ms}");
            Ok(GuideAiring {
                guide_entry_id: None,
                title,
                subtitle,
                season,
                episode,
                start_ms,
                end_ms,
                content_key,
                is_new: false,
            })
        }
    }
}

/// Checks that a span can be recorded: neither too long nor too far away.
fn check_span(channel: &Channel, (start_ms, end_ms): (i64, i64), padding: &Padding, now_ms: i64) -> Result<()> {
    if end_ms - start_ms > MAX_LENGTH_MS {
        let message = format!("must be at most {} h after start", MAX_LENGTH_MS / 3_600_000);
        return Err(Error::invalid_field("end", message));
    }
    // The past is recorded from catch-up segments, as far back as those can be produced.
    if start_ms - padding.before_ms < now_ms - CATCHUP_MS {
        return Err(Error::invalid_field("start", "must not be older than the catch-up window"));
    }
    if channel.external.is_some() && end_ms + padding.after_ms <= now_ms {
        let message = "must be in the future: an external channel can only be recorded while it is on air";
        return Err(Error::invalid_field("end", message));
    }
    check_ahead("start", WallMs(start_ms), WallMs(now_ms))
}

impl Recordings {
    /// Scheduled recordings of a rule whose airing is no longer in the guide as it was.
    fn stale_recordings(&self, rule: &SeriesRule, upcoming: &[GuideAiring]) -> Vec<Recording> {
        // Airings outside the examined range may still be in the guide.
        let (from_ms, to_ms) = upcoming.first().zip(upcoming.last()).map_or((0, 0), |(a, b)| (a.start_ms, b.end_ms));
        let is_current = |recording: &Recording| {
            !(from_ms..to_ms).contains(&recording.start_ms)
                || upcoming.iter().any(|airing| {
                    (airing.start_ms, airing.end_ms, &airing.title)
                        == (recording.start_ms, recording.end_ms, &recording.title)
                })
        };
        let is_scheduled_by_rule = |recording: &Recording| {
            recording.rule_id.as_deref() == Some(&*rule.id) && recording.state == RecordingState::Scheduled
        };
        self.all().into_iter().filter(|recording| is_scheduled_by_rule(recording) && !is_current(recording)).collect()
    }
}

fn new_recording(airing: &GuideAiring, channel_id: u32, user_id: &str, padding: Padding, now_ms: i64) -> Recording {
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
        created_ms: now_ms,
        ..Recording::default()
    }
}
