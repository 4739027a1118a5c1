//! `/api/preferences`: what a user chose, on each of their devices.

use crate::domain::preferences::{
    Languages, LanguagesChange, MAX_SERIES_NAME_BYTES, Preferences, PreferencesChange, SeriesLanguages,
    is_language_tag, is_subtitle_choice,
};
use crate::http::api::prelude::*;
use crate::http::decode::present;

/// Most channels that one request adds or removes.
const MAX_CHANGED_FAVOURITES: usize = 500;

/// Chosen languages; null where nothing was chosen.
#[derive(Serialize, ToSchema)]
#[schema(as = Languages)]
pub(super) struct LanguagesView {
    /// A language tag.
    audio: Option<String>,
    /// A language tag, or `off`.
    subtitle: Option<String>,
}

/// Languages chosen in one series.
#[derive(Serialize, ToSchema)]
#[schema(as = SeriesLanguages)]
pub(super) struct SeriesLanguagesView {
    /// The name that the client gave the series.
    series: String,
    audio: Option<String>,
    subtitle: Option<String>,
}

/// The preferences of the signed-in user.
#[derive(Serialize, ToSchema)]
#[schema(as = Preferences)]
pub(super) struct PreferencesView {
    /// The languages chosen last, in any series.
    languages: LanguagesView,
    /// Changed least recently first; at most 200.
    series: Vec<SeriesLanguagesView>,
    /// Ids of favourite channels, the oldest first; at most 500.
    favourites: Vec<u32>,
}

/// The preferences.
#[derive(Serialize, ToSchema)]
pub(super) struct PreferencesAnswer {
    preferences: PreferencesView,
}

/// A change of languages; an absent one stays, null returns to no choice.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LanguagesChange)]
pub(super) struct LanguagesRequest {
    /// A language tag.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    audio: Option<Option<String>>,
    /// A language tag, or `off`.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    subtitle: Option<Option<String>>,
}

/// A change of the languages of one series; without a choice it is removed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SeriesLanguagesChange)]
pub(super) struct SeriesLanguagesRequest {
    /// A name of your own, such as the folder of the series; 1 to 1024 bytes.
    series: String,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    audio: Option<Option<String>>,
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    subtitle: Option<Option<String>>,
}

/// A change of preferences; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PreferencesRequest {
    languages: Option<LanguagesRequest>,
    series: Option<SeriesLanguagesRequest>,
    /// Ids of channels; at most 500.
    #[serde(default)]
    add_favourites: Vec<u32>,
    /// Ids of channels; at most 500.
    #[serde(default)]
    remove_favourites: Vec<u32>,
}

/// The preferences of the signed-in user
#[utoipa::path(get, path = "/api/preferences", responses(
    (status = 200, description = "The preferences", body = PreferencesAnswer)))]
pub async fn read(service: Arc<Service>, call: Call) -> Result<Response> {
    let preferences = service.accounts.preferences(&call.user()?.user_id)?;
    Ok(reply::json(&PreferencesAnswer { preferences: preferences.into() }))
}

/// Change preferences of the signed-in user
///
/// The request names only what changes, so changes of two devices do not undo each other.
#[utoipa::path(patch, path = "/api/preferences", request_body = PreferencesRequest, responses(
    (status = 200, description = "All preferences", body = PreferencesAnswer),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 507, description = "`STORAGE_FULL`: nothing was changed")))]
pub async fn change(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: PreferencesRequest = call.json().await?;
    let preferences = service.accounts.change_preferences(call.user()?, request.validate()?).await?;
    Ok(reply::json(&PreferencesAnswer { preferences: preferences.into() }))
}

impl PreferencesRequest {
    fn validate(self) -> Result<PreferencesChange> {
        let languages = self.languages.unwrap_or_default().validate("languages")?;
        let series = self.series.map(SeriesLanguagesRequest::validate).transpose()?;
        for (field, ids) in [("addFavourites", &self.add_favourites), ("removeFavourites", &self.remove_favourites)] {
            if ids.len() > MAX_CHANGED_FAVOURITES {
                return Err(Error::invalid_field(field, format!("must be at most {MAX_CHANGED_FAVOURITES} channels")));
            }
        }
        Ok(PreferencesChange {
            languages,
            series,
            added_favourites: self.add_favourites,
            removed_favourites: self.remove_favourites,
        })
    }
}

impl LanguagesRequest {
    fn validate(self, parent: &str) -> Result<LanguagesChange> {
        if self.audio.iter().flatten().any(|tag| !is_language_tag(tag)) {
            return Err(Error::invalid_field(&format!("{parent}.audio"), "must be a language tag, such as `de`"));
        }
        if self.subtitle.iter().flatten().any(|choice| !is_subtitle_choice(choice)) {
            return Err(Error::invalid_field(&format!("{parent}.subtitle"), "must be a language tag, or `off`"));
        }
        Ok(LanguagesChange { audio: self.audio, subtitle: self.subtitle })
    }
}

impl SeriesLanguagesRequest {
    fn validate(self) -> Result<(String, LanguagesChange)> {
        if self.series.is_empty() || self.series.len() > MAX_SERIES_NAME_BYTES {
            let message = format!("must be 1 to {MAX_SERIES_NAME_BYTES} bytes");
            return Err(Error::invalid_field("series.series", message));
        }
        let languages = LanguagesRequest { audio: self.audio, subtitle: self.subtitle };
        Ok((self.series, languages.validate("series")?))
    }
}

impl From<Preferences> for PreferencesView {
    fn from(preferences: Preferences) -> Self {
        let Languages { audio, subtitle } = preferences.languages;
        let to_view = |SeriesLanguages { series, languages: Languages { audio, subtitle } }: SeriesLanguages| {
            SeriesLanguagesView { series, audio, subtitle }
        };
        Self {
            languages: LanguagesView { audio, subtitle },
            series: preferences.series.into_iter().map(to_view).collect(),
            favourites: preferences.favourites,
        }
    }
}
