//! The flags of `bpfdb serve`: one for each setting, made from the list of
//! settings. A flag wins over the configuration file.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use bpfdb_server::settings::{ConfigFile, SETTINGS, Setting, Settings};
use clap::{Arg, ArgAction, ArgMatches, Command};

const CONFIG: &str = "config";
const FRESH: &str = "fresh";
const LOAD_RDB: &str = "load-rdb";

pub(crate) struct Arguments {
    config: Option<PathBuf>,
    /// Drop data of an earlier server.
    pub(crate) fresh: bool,
    /// A file of Redis to begin with.
    pub(crate) load_rdb: Option<PathBuf>,
    flags: Vec<(&'static Setting, String)>,
}

impl Arguments {
    /// What the file says, and then the flags.
    pub(crate) fn settings(&self) -> Result<(Settings, Option<ConfigFile>)> {
        let mut settings = Settings::default();
        let file = self.config.as_deref().map(ConfigFile::at).transpose()?;
        if let Some(file) = &file {
            file.apply(&mut settings)?;
        }
        for (setting, text) in &self.flags {
            setting
                .set(&mut settings, text)
                .map_err(|error| anyhow!("--{} {text}: {error}", setting.name))?;
        }
        Ok((settings, file))
    }
}

impl clap::FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &'static Setting| {
            let text: &String = matches.get_one(setting.name)?;
            Some((setting, text.clone()))
        };
        Ok(Self {
            config: matches.get_one(CONFIG).cloned(),
            fresh: matches.get_flag(FRESH),
            load_rdb: matches.get_one(LOAD_RDB).cloned(),
            flags: SETTINGS.iter().filter_map(given).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Arguments {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new(CONFIG)
                    .long(CONFIG)
                    .short('c')
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Configuration file; see docs/operation.md"),
            )
            .arg(
                Arg::new(FRESH)
                    .long(FRESH)
                    .action(ArgAction::SetTrue)
                    .help("Drop data that an earlier server on this port left in the kernel"),
            )
            .arg(
                Arg::new(LOAD_RDB)
                    .long(LOAD_RDB)
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help("Begin with what this RDB file of Redis has: there must be no data yet"),
            )
            .args(SETTINGS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flag(setting: &'static Setting) -> Arg {
    let default = setting.show(&Settings::default());
    let help = match default.as_str() {
        "" => setting.help(),
        default => format!("{} [default: {default}]", setting.help()),
    };
    let flag = Arg::new(setting.name)
        .long(setting.name)
        .help(help)
        .value_name(setting.hint)
        // The name of another flag is not meant as a value: a variable of the shell was empty.
        .allow_negative_numbers(true)
        // The last one counts.
        .overrides_with(setting.name)
        .help_heading("Settings");
    let flag = match setting.name {
        "port" => flag.short('p'),
        "loglevel" => flag.alias("log-level"),
        "logfile" => flag.alias("log-file"),
        _ => flag,
    };
    if setting.is_switch() {
        // `--keep-data`, `--keep-data no` and `--keep-data=no`
        flag.num_args(0..=1).default_missing_value("yes")
    } else {
        flag
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn parse(words: &[&str]) -> Arguments {
        let command = Arguments::augment_args(Command::new("serve"));
        let matches = command
            .try_get_matches_from([&["serve"], words].concat())
            .expect("good");
        Arguments::from_arg_matches(&matches).expect("good")
    }

    #[test]
    fn every_setting_has_a_flag() {
        Arguments::augment_args(Command::new("serve")).debug_assert();
        for setting in SETTINGS {
            let text = setting.show(&Settings::default());
            let (settings, _) = parse(&[&format!("--{}={text}", setting.name)])
                .settings()
                .expect(setting.name);
            assert_eq!(settings, Settings::default(), "{}", setting.name);
        }
    }

    #[test]
    fn flags_win() {
        let folder = std::env::temp_dir().join(format!("bpfdb-flags-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("bpfdb.toml");
        std::fs::write(&path, "port = 1\ntimeout = 2\n").expect("written");
        let arguments = parse(&[
            "--config",
            path.to_str().expect("a path"),
            "-p",
            "3",
            "--keep-data",
            "--log-level",
            "debug",
        ]);
        let (settings, file) = arguments.settings().expect("good");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!((settings.port, settings.timeout), (3, 2));
        assert!(settings.keep_data);
        assert!(file.is_some());
    }

    /// As other flags, and those of Redis.
    #[test]
    fn a_switch_has_its_value_behind_it_or_none() {
        let given = |words: &[&str]| parse(words).settings().expect("good").0;
        let settings = given(&["--tier", "yes", "--tier-memory", "256M", "--keep-data"]);
        assert!(settings.tier && settings.keep_data);
        assert_eq!(settings.tier_memory.bytes(), 256 << 20);
        let settings = given(&[
            "--tier",
            "no",
            "--keep-data=no",
            "--tier-prefetch",
            "-p",
            "3",
        ]);
        assert!(!settings.tier && !settings.keep_data && settings.tier_prefetch);
        assert_eq!(settings.port, 3);
    }

    /// A variable of the shell was empty, perhaps.
    #[test]
    fn a_flag_is_no_value_of_another() {
        for words in [
            ["serve", "--dir", "--fresh"],
            ["serve", "--requirepass", "--keep-data"],
        ] {
            let command = Arguments::augment_args(Command::new("serve"));
            assert!(command.try_get_matches_from(words).is_err(), "{words:?}");
        }
        let (settings, _) = parse(&["--worker-nice", "-10"]).settings().expect("good");
        assert_eq!(settings.worker_nice, -10);
        parse(&["--requirepass=-x"]).settings().expect("good");
    }

    #[test]
    fn a_bad_value_is_told_with_its_flag() {
        let error = parse(&["--versions", "9"]).settings().expect_err("bad");
        assert_eq!(
            error.to_string(),
            "--versions 9: argument must be between 1 and 8 inclusive"
        );
    }
}
