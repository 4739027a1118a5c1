//! Credentials of the store: from a file in the format of the AWS tools, or from their environment variables.

use std::path::Path;

/// Largest credentials file, bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Those of the file, if one is configured, otherwise those of the environment.
    ///
    /// # Errors
    /// The value that is missing. It contains no secret.
    pub fn load(file: Option<&Path>, environment: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let profile = environment("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        match file {
            Some(file) => Self::parse(&read_file(file)?, &profile)
                .map_err(|fault| format!("segments_credentials_file {}: {fault}", file.display())),
            None => Self::from_values(|name| environment(&name.to_uppercase())).map_err(|missing| {
                let missing = missing.to_uppercase();
                format!("segments is set, but {missing} is missing: set it, or name a segments_credentials_file")
            }),
        }
    }

    fn from_values(value: impl Fn(&str) -> Option<String>) -> Result<Self, &'static str> {
        let required = |name| value(name).filter(|text| !text.is_empty()).ok_or(name);
        Ok(Self {
            access_key_id: required("aws_access_key_id")?,
            secret_access_key: required("aws_secret_access_key")?,
            session_token: required("aws_session_token").ok(),
        })
    }

    /// The section `[profile]` of a file.
    fn parse(text: &str, profile: &str) -> Result<Self, String> {
        let mut values = std::collections::HashMap::new();
        let mut is_in_profile = false;
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                is_in_profile = section.trim() == profile;
            } else if is_in_profile && let Some((name, value)) = line.split_once('=') {
                values.insert(name.trim().to_lowercase(), value.trim().to_owned());
            }
        }
        Self::from_values(|name| values.get(name).cloned())
            .map_err(|missing| format!("{missing} is missing in the section [{profile}]"))
    }
}

#[allow(clippy::disallowed_methods, reason = "a file that the configuration names")]
fn read_file(file: &Path) -> Result<String, String> {
    let fault = |cause: std::io::Error| format!("segments_credentials_file {}: {cause}", file.display());
    let length = std::fs::metadata(file).map_err(fault)?.len();
    if length > MAX_FILE_BYTES {
        return Err(format!(
            "segments_credentials_file {} has {length} bytes; {MAX_FILE_BYTES} are allowed",
            file.display()
        ));
    }
    std::fs::read_to_string(file).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_sections_and_the_environment_names_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=S=1\n\n[tv]\nAWS_ACCESS_KEY_ID=B\n";
        std::fs::write(&file, text).unwrap();
        let load = |profile: Option<&str>| {
            Credentials::load(Some(&file), |name| profile.filter(|_| name == "AWS_PROFILE").map(str::to_owned))
        };
        let found = load(None).unwrap();
        assert_eq!((&*found.access_key_id, &*found.secret_access_key, found.session_token.clone()), ("A", "S=1", None));
        assert!(!format!("{found:?}").contains("S=1"));
        assert!(load(Some("tv")).unwrap_err().contains("aws_secret_access_key is missing in the section [tv]"));
        assert!(Credentials::load(Some(Path::new("/missing")), |_| None).unwrap_err().contains("/missing"));
    }

    #[test]
    fn without_a_file_the_environment_has_them() {
        let load =
            |is_set: fn(&str) -> bool| Credentials::load(None, |name| is_set(name).then(|| format!("value of {name}")));
        let found = load(|name| name != "AWS_PROFILE").unwrap();
        assert_eq!(found.secret_access_key, "value of AWS_SECRET_ACCESS_KEY");
        assert_eq!(found.session_token.as_deref(), Some("value of AWS_SESSION_TOKEN"));
        let fault = load(|name| name == "AWS_ACCESS_KEY_ID").unwrap_err();
        assert!(fault.contains("AWS_SECRET_ACCESS_KEY is missing"), "{fault}");
    }
}
