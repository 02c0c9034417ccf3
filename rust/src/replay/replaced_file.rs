//! Files that are written under another name and renamed, so that a path has the old file or the new one, whole.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// The path of the file to write, with links followed, and its permissions when it exists.
pub fn resolve(path: &Path) -> std::io::Result<(PathBuf, Option<Permissions>)> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok((path.to_owned(), None)),
        Err(error) => Err(error),
        Ok(found) if found.is_file() => {
            Ok((std::fs::canonicalize(path)?, Some(found.permissions())))
        }
        Ok(_) => Err(std::io::Error::other("not a file")),
    }
}

/// A file that is deleted unless it is renamed, with the permissions that new files get in this folder.
pub fn temporary_file_in(parent: &Path) -> std::io::Result<NamedTempFile<File>> {
    let mut code = None;
    let made = tempfile::Builder::new().prefix(".cogrs-").make_in(parent, |path| {
        let opened = File::create_new(path);
        code = opened.as_ref().err().and_then(std::io::Error::raw_os_error);
        opened
    });
    // The error that `made` has lacks the system's number, and names the temporary file.
    made.map_err(|error| code.map_or(error, std::io::Error::from_raw_os_error))
}
