//! From the configuration to the tools of MCP servers.

use std::sync::Arc;

use herm::Result;
use herm::tool::Tool;

use crate::config::Settings;

/// The tools of the configured servers, and what the operator should know.
pub type McpTools = (Vec<Arc<dyn Tool>>, Vec<String>);

/// Without MCP, a configured server is a mistake that must not go unseen.
#[cfg(not(feature = "mcp"))]
pub async fn connect(settings: &Settings) -> Result<McpTools> {
    match settings.config.mcp.keys().next() {
        None => Ok(McpTools::default()),
        Some(name) => Err(herm::Error::invalid(format!("the MCP server {name}: this herm was built without MCP"))
            .hint("build with --features mcp, or take [mcp] out of the configuration")),
    }
}

/// Connects the servers that the operator allows. Must run within the runtime that the tools are used in. A server that
/// is not there is a warning; one that is configured wrongly is an error.
#[cfg(feature = "mcp")]
pub async fn connect(settings: &Settings) -> Result<McpTools> {
    let permissions = crate::backends::permissions(settings);
    let mut servers = Vec::new();
    let mut warnings = Vec::new();
    for (name, entry) in &settings.config.mcp {
        let server = configured::server(settings, name, entry)?;
        // What no task may use is not started.
        if permissions.allow(server.permission()) {
            servers.push(server);
        } else {
            let missing = if entry.command.is_some() { "process" } else { "network" };
            warnings.push(format!("the MCP server {name} is not used: that needs {missing} = true in [tools]"));
        }
    }
    let (tools, said) = herm_tools::mcp::connect(servers).await;
    warnings.extend(said);
    Ok((tools, warnings))
}

#[cfg(feature = "mcp")]
mod configured {
    use std::time::Duration;

    use herm::{Error, Result};
    use herm_tools::mcp::{McpServer, SecretHeader};

    use crate::backends::secret;
    use crate::config::{McpEntry, McpHeaderEntry, Settings};

    /// A server as an entry says.
    pub(super) fn server(settings: &Settings, name: &str, entry: &McpEntry) -> Result<McpServer> {
        let invalid = |what: &str, hint: &str| Error::invalid(format!("the MCP server {name} {what}")).hint(hint);
        let server = match (&entry.command, &entry.url) {
            (Some(command), None) if entry.header.is_none() => {
                McpServer::process(name, command, entry.args.clone(), entry.env.clone())?
            }
            (None, Some(url)) if entry.args.is_empty() && entry.env.is_empty() => {
                let server = McpServer::http(name, url, None)?;
                match &entry.header {
                    None => server,
                    Some(said) => McpServer::http(name, url, Some(header(settings, &server, said)?))?,
                }
            }
            (Some(_), None) => {
                return Err(invalid("has a header and is a program", "a header goes with a url; see env instead"));
            }
            (None, Some(_)) => {
                return Err(invalid("has args or env and is no program", "they go with a command, not with a url"));
            }
            _ => {
                return Err(invalid(
                    "needs either command or url",
                    "write command = \"program\" or url = \"https://…\"",
                ));
            }
        };
        match entry.timeout_secs {
            None => Ok(server),
            Some(seconds @ 1..=600) => Ok(server.call_timeout(Duration::from_secs(seconds))),
            Some(_) => Err(invalid("has a timeout_secs out of bounds", "give 1 to 600 seconds")),
        }
    }

    /// A header, if its secret may go to the server.
    fn header(settings: &Settings, server: &McpServer, said: &McpHeaderEntry) -> Result<SecretHeader> {
        let (name, host) = (&said.secret, server.host().unwrap_or_default());
        let Some(entry) = settings.config.secrets.get(name) else {
            return Err(Error::not_found(format!("the MCP server {}: there is no secret {name}", server.name()))
                .hint(format!("add [secrets.{name}] to the configuration")));
        };
        if !entry.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
            return Err(Error::refused(format!("the secret {name} may not be sent to {host}"))
                .hint(format!("add {host:?} to the hosts of [secrets.{name}]")));
        }
        SecretHeader::new(&said.name, &secret(name, &entry.at)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigFile, SettingsFlags};

    fn settings(said: &str) -> Settings {
        let flags = SettingsFlags { brains: Some("/nonexistent".into()), ..SettingsFlags::default() };
        let said: ConfigFile = toml::from_str(said).unwrap();
        Settings { config: said, ..Settings::load(&flags).unwrap() }
    }

    #[cfg(not(feature = "mcp"))]
    #[tokio::test]
    async fn without_mcp_a_configured_server_is_an_error() {
        let error = connect(&settings("[mcp.x]\ncommand = 'true'")).await.err().unwrap();
        assert_eq!(error.message(), "the MCP server x: this herm was built without MCP");
        assert!(error.hint_text().unwrap().contains("--features mcp"));
        assert!(connect(&settings("")).await.is_ok());
    }

    #[cfg(feature = "mcp")]
    #[tokio::test]
    async fn what_is_not_allowed_is_not_started() {
        let said = "[mcp.a]\ncommand = '/nonexistent/x'\n[mcp.b]\nurl = 'http://127.0.0.1:1/mcp'";
        let (tools, warnings) = connect(&settings(said)).await.unwrap();
        assert!(tools.is_empty());
        let expected = [
            "the MCP server a is not used: that needs process = true in [tools]",
            "the MCP server b is not used: that needs network = true in [tools]",
        ];
        assert_eq!(warnings, expected);
    }

    #[cfg(feature = "mcp")]
    #[tokio::test]
    async fn a_server_that_is_not_there_is_a_warning() {
        let said = "[tools]\nprocess = true\n[mcp.a]\ncommand = '/nonexistent/x'";
        let (tools, warnings) = connect(&settings(said)).await.unwrap();
        assert!(tools.is_empty());
        assert!(warnings.len() == 1 && warnings[0].starts_with("the MCP server a cannot be started"), "{warnings:?}");
    }

    #[cfg(feature = "mcp")]
    #[tokio::test]
    async fn a_server_that_is_configured_wrongly_is_an_error() {
        let cases = [
            ("[mcp.A]\ncommand = 'x'", "not a name"),
            ("[mcp.a]", "either command or url"),
            ("[mcp.a]\ncommand = 'x'\nurl = 'http://127.0.0.1/'", "either command or url"),
            ("[mcp.a]\nurl = 'http://127.0.0.1/'\nargs = ['x']", "is no program"),
            ("[mcp.a]\ncommand = 'x'\nheader = { name = 'X-Key', secret = 's' }", "is a program"),
            ("[mcp.a]\ncommand = 'x'\ntimeout_secs = 0", "out of bounds"),
            ("[mcp.a]\nurl = 'https://a.example/'\nheader = { name = 'X-Key', secret = 's' }", "no secret s"),
            (
                "[secrets.s]\nenv = 'PATH'\nhosts = ['b.example']\n[mcp.a]\nurl = 'https://a.example/'\nheader = { name = 'X-Key', secret = 's' }",
                "may not be sent to a.example",
            ),
        ];
        for (said, expected) in cases {
            let error = connect(&settings(said)).await.err().unwrap();
            assert!(error.message().contains(expected), "{said}: {error:?}");
        }
    }
}
