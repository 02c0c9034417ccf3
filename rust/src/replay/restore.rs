//! Files loaded into memories that exist.

use std::fmt::Write;

use crate::error::{Error, Result};
use crate::replay::checkpoint::CheckpointFile;
use crate::replay::checkpoint_load::LoadOptions;
use crate::replay::compression::Compression;
use crate::replay::memory::Memory;
use crate::replay::rate_limiter::RateLimiter;
use crate::replay::settings::Settings;
use crate::replay::view::ViewSettings;

/// Whose settings count where those of a memory and of a file differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsOf {
    /// Differences are an error.
    Neither,
    /// The file's.
    File,
    /// The memory's.
    Memory,
}

impl Memory {
    /// Replaces all episodes, open ones too, by those of a file, or changes nothing. Views of both are kept.
    ///
    /// Fails with [`Error::Value`] when fields or `max_step` differ, or settings do and it is not said whose count; else as
    /// [`CheckpointFile::load`] does.
    pub fn restore_from(
        &mut self,
        file: CheckpointFile,
        settings: SettingsOf,
        overcommit: bool,
    ) -> Result<()> {
        let expected = "a file of a memory with the same templates and max_step";
        if file.fields() != self.spec().fields() || file.recurrent() != self.recurrent_spec() {
            return Err(Error::value("path", expected, "other templates"));
        }
        if file.max_step() != self.max_step() {
            let got = format!("max_step {}, and {} here", file.max_step(), self.max_step());
            return Err(Error::value("path", expected, got));
        }
        let none = Compression::default();
        if file.compression() != self.compression().unwrap_or(&none) {
            let expected = "a file of a memory with the same compress and max_bytes";
            return Err(Error::value("path", expected, "another"));
        }
        if settings == SettingsOf::Neither {
            self.check_same_settings(&file)?;
        }
        let folder = self.folder().cloned();
        let mut made = file.load(LoadOptions { folder, overcommit, compression: None })?;
        if settings == SettingsOf::Memory {
            made.set_settings(Settings::clone(self.settings()))?;
        }
        made.set_limiter(self.limiter().copied())?;
        self.keep_views(&mut made, settings)?;
        // Writers that have an episode open here must not find one of that number there.
        made.next_serial = made.next_serial.max(self.next_serial);
        made.next_view = made.next_view.max(self.next_view);
        // What is closed from now on has to show to those who know the totals, which count the larger of two.
        made.totals.episodes = made.totals.episodes.max(self.totals.episodes);
        made.totals.steps = made.totals.steps.max(self.totals.steps);
        *self = made;
        Ok(())
    }

    /// Gives the views of this memory to another, with its weights where it has one of the name and exponent.
    fn keep_views(&self, made: &mut Self, settings: SettingsOf) -> Result<()> {
        made.next_view = made.next_view.max(self.next_view);
        // Keys of views that only the file has must be new here.
        for view in &mut made.views {
            view.key = made.next_view;
            made.next_view += 1;
        }
        for mine in self.views() {
            let at = made.views.iter().position(|view| view.settings.name == mine.settings.name);
            let key = match at {
                Some(at)
                    if settings != SettingsOf::Memory
                        || made.views[at].settings.priority_exponent
                            == mine.settings.priority_exponent =>
                {
                    let view = &mut made.views[at];
                    if settings == SettingsOf::Memory {
                        // Weights and counts of the file are right under another sampler or limit.
                        view.index.set_limit(mine.settings.max_times_sampled)?;
                        view.settings = mine.settings.clone();
                    }
                    view.key
                }
                _ => {
                    if let Some(at) = at {
                        made.views.remove(at);
                    }
                    made.add_view(mine.settings.clone())?
                }
            };
            let at = made.position_of_view(key)?;
            made.views[at].key = mine.key;
        }
        // Other limits hide other entries.
        made.mask_borders();
        Ok(())
    }

    fn check_same_settings(&self, file: &CheckpointFile) -> Result<()> {
        let mut text = String::new();
        for (name, mine, other) in self.settings().differences(file.settings()) {
            let _ = write!(text, ", {name} {other} and {mine} here");
        }
        // Without a limiter in the file counts begin with the entries restored.
        if let Some(theirs) = file.limiter().filter(|theirs| self.limiter() != Some(theirs)) {
            let mine = self.limiter().map_or("None".into(), RateLimiter::to_string);
            let _ = write!(text, ", limiter {theirs} and {mine} here");
        }
        for theirs in file.views() {
            let mine = self.view_of(&theirs.name).map(|view| &view.settings);
            if let Some(mine) = mine.filter(|mine| *mine != theirs) {
                let told = |view: &ViewSettings| {
                    format!(
                        "(priority_exponent={}, sampler='{}', max_times_sampled={})",
                        view.priority_exponent, view.sampler, view.max_times_sampled
                    )
                };
                let _ =
                    write!(text, ", view {:?} {} and {} here", mine.name, told(theirs), told(mine));
            }
        }
        match text.strip_prefix(", ") {
            None => Ok(()),
            Some(differences) => {
                let expected = "'file' or 'mine', since those of the file differ";
                Err(Error::value("settings", expected, format!("None: {differences}")))
            }
        }
    }
}
