import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const SPOOL = process.env.TREERING_SPOOL || @SPOOL@;
const EVENTS = @EVENTS@;
const QUIET_MS = 2000;

// This file is <state>/extensions/treering/index.js.
const STATE = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..");
const HOST = os.hostname().replace(/[^A-Za-z0-9.-]/g, "-").slice(0, 100).replace(/^\.+/, "");
const FILE = path.join(SPOOL, (HOST || "host") + "@SUFFIX@");

const told = new Map();

function text(value) {
  return typeof value === "string" && value ? value : null;
}

function transcript(event, agentId, sessionId) {
  const named = text(event.sessionFile);
  if (named) return named;
  if (!agentId || !sessionId || /[\\/]/.test(agentId + sessionId)) return null;
  const file = path.join(STATE, "agents", agentId, "sessions", sessionId + ".jsonl");
  return fs.existsSync(file) ? file : null;
}

function append(line) {
  fs.mkdirSync(SPOOL, { recursive: true, mode: 0o700 });
  for (let tries = 0; tries < 3; tries += 1) {
    const file = fs.openSync(FILE, "a", 0o600);
    try {
      fs.writeSync(file, "\n" + line + "\n");
      // Moved away meanwhile to be drained: then it may have been read before this was written.
      // Told twice does no harm.
      if (fs.fstatSync(file).ino === fs.statSync(FILE, { throwIfNoEntry: false })?.ino) return;
    } finally {
      fs.closeSync(file);
    }
  }
}

function tell(name, event, context) {
  const agentId = text(context.agentId) ?? text(event.agentId) ?? "main";
  const sessionId = text(event.sessionId) ?? text(context.sessionId);
  append(
    JSON.stringify({
      schema: "@SCHEMA@",
      agent: "openclaw",
      ts_ms: Date.now(),
      event: name,
      session_id: sessionId,
      transcript_path: transcript(event, agentId, sessionId),
      cwd: text(context.workspaceDir),
      content: {
        agent_id: agentId,
        session_key: text(context.sessionKey) ?? text(event.sessionKey),
        run_id: text(context.runId) ?? text(event.runId),
      },
    }),
  );
}

function tellOnce(name, event, context) {
  // A turn may call the model often: it is told at once, then after it has been quiet for a while.
  if (name !== "model_call_ended") return tell(name, event, context);
  const key = text(context.sessionKey) ?? text(context.sessionId) ?? "";
  const waiting = told.get(key);
  if (waiting) clearTimeout(waiting);
  else tell(name, event, context);
  const timer = setTimeout(() => {
    told.delete(key);
    quietly(() => tell(name, event, context));
  }, QUIET_MS);
  timer.unref?.();
  told.set(key, timer);
}

function quietly(action) {
  try {
    action();
  } catch {
    // The agent goes on, whatever becomes of its recorder.
  }
}

export default {
  id: "treering",
  name: "Treering",
  description: "@DESCRIPTION@",
  register(api) {
    for (const name of EVENTS) {
      quietly(() =>
        api.on(name, (event, context) => quietly(() => tellOnce(name, event ?? {}, context ?? {}))),
      );
    }
  },
};
