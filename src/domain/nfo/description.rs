//! The description of one media file, from its NFO file and that of its show.

use super::fields::{MAX_GENRES, MAX_PLOT_CHARS, MAX_TITLE_CHARS};
use super::{Nfo, NfoKind};

impl Nfo {
    /// The description of a media file by the records of its NFO file, which describe a film or episodes. Titles and plots of
    /// several episodes are joined. The record of the show gives an episode its show title, and genres if it has none. None
    /// without a record of a film or episode.
    pub fn describe_file(records: &[Self], show: Option<&Self>) -> Option<Self> {
        let mut episodes = records.iter().filter(|record| record.kind == NfoKind::Episode);
        let mut description = match records.iter().find(|record| record.kind == NfoKind::Movie) {
            Some(film) => return Some(film.clone()),
            None => episodes.next()?.clone(),
        };
        for episode in episodes {
            join(&mut description.title, " / ", episode.title.as_deref(), MAX_TITLE_CHARS);
            join(&mut description.plot, " ", episode.plot.as_deref(), MAX_PLOT_CHARS);
            let is_later = episode.season == description.season && episode.episode > description.episode;
            if is_later && episode.episode > description.last_episode {
                description.last_episode = episode.episode;
            }
        }
        if let Some(show) = show.filter(|show| show.kind == NfoKind::Show) {
            description.show_title = show.title.clone().or(description.show_title);
            if description.genres.is_empty() {
                description.genres = show.genres.iter().take(MAX_GENRES).cloned().collect();
            }
        }
        Some(description)
    }
}

fn join(text: &mut Option<String>, separator: &str, next: Option<&str>, max_chars: usize) {
    let Some(next) = next.filter(|next| text.as_deref() != Some(next)) else { return };
    let joined = text.as_deref().map_or_else(|| next.to_owned(), |text| format!("{text}{separator}{next}"));
    *text = Some(joined.chars().take(max_chars).collect());
}
