import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const SPOOL = process.env.TREERING_SPOOL || @SPOOL@;
const PROGRAM = @PROGRAM@;
const EVENTS = @EVENTS@;
const QUIET_MS = 2000;
const ANSWER_MS = 60000;
const IDLE_MS = 300000;

// This file is <state>/extensions/treering/index.js.
const STATE = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..", "..");
const HOST = os.hostname().replace(/[^A-Za-z0-9.-]/g, "-").slice(0, 100).replace(/^\.+/, "");
const FILE = path.join(SPOOL, (HOST || "host") + "@SUFFIX@");

const timers = new Map();
const servers = new Map();

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
      // A line that is written twice does no harm.
      if (fs.fstatSync(file).ino === fs.statSync(FILE, { throwIfNoEntry: false })?.ino) return;
    } finally {
      fs.closeSync(file);
    }
  }
}

function report(name, event, context) {
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

function reportOnce(name, event, context) {
  // A turn may call the model often: it is reported at once, and again after a quiet moment.
  if (name !== "model_call_ended") return report(name, event, context);
  const key = text(context.sessionKey) ?? text(context.sessionId) ?? "";
  const waiting = timers.get(key);
  if (waiting) clearTimeout(waiting);
  else report(name, event, context);
  const timer = setTimeout(() => {
    timers.delete(key);
    quietly(() => report(name, event, context));
  }, QUIET_MS);
  timer.unref?.();
  timers.set(key, timer);
}

function quietly(action) {
  try {
    action();
  } catch {
    // The agent continues without its recorder.
  }
}

// `treering mcp`, one for each folder that an agent works in: the folder decides the scope.
function serverOf(folder) {
  if (!servers.has(folder)) servers.set(folder, start(folder));
  return servers.get(folder);
}

function start(folder) {
  const child = spawn(PROGRAM, ["mcp"], { cwd: folder, stdio: ["pipe", "pipe", "pipe"] });
  const waiting = new Map();
  let number = 0;
  let rest = "";
  let complaint = "";
  let idle;

  function end(reason) {
    servers.delete(folder);
    clearTimeout(idle);
    for (const { fail, late } of waiting.values()) {
      clearTimeout(late);
      fail(new Error(complaint.trim() || reason));
    }
    waiting.clear();
  }

  function send(message) {
    child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  }

  function request(method, params) {
    clearTimeout(idle);
    idle = setTimeout(() => child.stdin.end(), IDLE_MS);
    idle.unref?.();
    return new Promise((done, fail) => {
      const id = (number += 1);
      const late = setTimeout(() => {
        waiting.delete(id);
        fail(new Error("treering does not answer"));
      }, ANSWER_MS);
      waiting.set(id, { done, fail, late });
      send({ id, method, params });
    });
  }

  function receive(line) {
    const message = JSON.parse(line);
    const asked = waiting.get(message.id);
    if (!asked) return;
    waiting.delete(message.id);
    clearTimeout(asked.late);
    if (message.error) asked.fail(new Error(message.error.message));
    else asked.done(message.result);
  }

  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (block) => {
    const lines = (rest + block).split("\n");
    rest = lines.pop();
    for (const line of lines) quietly(() => receive(line));
  });
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (block) => {
    complaint = (complaint + block).slice(-1000);
  });
  child.stdin.on("error", () => end("treering has ended"));
  child.on("error", (error) => end(error.message));
  child.on("close", () => end("treering has ended"));
  // The gateway may end while it runs: then it ends with its input.
  for (const one of [child, child.stdin, child.stdout, child.stderr]) one.unref?.();

  const ready = request("initialize", {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "openclaw", version: "@VERSION@" },
  }).then(() => send({ method: "notifications/initialized" }));
  ready.catch(() => {});
  return { call: (name, given) => ready.then(() => request("tools/call", { name, arguments: given })) };
}

const TOOL = {
  name: "memory_episodes_query",
  label: "Earlier sessions",
  description:
    "Look up what happened in earlier sessions here: what was said, which tools were called, what" +
    " was decided. Gives summaries; set includePayload only if a summary is not enough. If has_more" +
    " is true, call again with the same arguments and next.cursor.",
  parameters: {
    type: "object",
    properties: {
      scope: { type: "string", description: "Leave it out: only this project is answered for." },
      sessionId: { type: "string", description: "Only this session." },
      fromTs: { type: "integer", description: "Only from this time on, in ms since 1970." },
      toTs: { type: "integer", description: "Only up to this time, in ms since 1970." },
      types: { type: "array", items: { type: "string" }, description: "Kinds, as tool.call." },
      limit: { type: "integer", description: "How many events at most, 1 to 50. Default: 20." },
      includePayload: { type: "boolean", description: "Give the content, too." },
      newestFirst: { type: "boolean", description: "Begin with the latest event." },
      cursor: { type: "string", description: "next.cursor of the answer before." },
    },
  },
};

async function query(folder, given) {
  try {
    const { content, isError } = await serverOf(folder).call(TOOL.name, given ?? {});
    return { content, details: { isError: Boolean(isError) } };
  } catch (error) {
    const problem = { code: "unavailable", message: String(error?.message ?? error) };
    const text = JSON.stringify({ ok: false, error: problem });
    return { content: [{ type: "text", text }], details: { isError: true } };
  }
}

function tool(context) {
  const folder = text(context?.workspaceDir);
  // A sandboxed agent may not reach what is outside of its sandbox.
  if (!folder || context.sandboxed) return null;
  return { ...TOOL, execute: (_id, given) => query(folder, given) };
}

export default {
  id: "treering",
  name: "Treering",
  description: "@DESCRIPTION@",
  register(api) {
    quietly(() => api.registerTool(tool, { name: TOOL.name }));
    for (const name of EVENTS) {
      quietly(() =>
        api.on(name, (event, context) => quietly(() => reportOnce(name, event ?? {}, context ?? {}))),
      );
    }
  },
};
