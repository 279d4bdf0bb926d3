// Starts the language server of AFL, if the client library for it is installed; highlighting needs neither.
"use strict";

const vscode = require("vscode");

let client;

function clientLibrary() {
  try {
    return require("vscode-languageclient/node");
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND") {
      throw error;
    }
    return undefined;
  }
}

async function activate() {
  const library = clientLibrary();
  if (library === undefined) {
    vscode.window.showInformationMessage(
      "AFL: only highlighting is there. Run `npm install` in the extension's folder for the language server."
    );
    return;
  }
  const settings = vscode.workspace.getConfiguration("afl");
  const sourcePaths = settings.get("sourcePaths").flatMap((path) => ["--source-path", path]);
  const server = { command: settings.get("command"), args: ["lsp", ...sourcePaths] };
  client = new library.LanguageClient("afl", "AFL", server, { documentSelector: [{ language: "afl" }] });
  await client.start();
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
