// Search in pages that are opened as files: browsers start no worker there, so its script runs in
// a hidden frame, and messages go to and fro by hand.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.tell(this, data);
      this.inside.importScripts = (...names) => Promise.all(names.map((name) => this.load(name)));
      this.load(address).then(() => {
        this.isReady = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }

    load(address) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = failed;
        this.inside.document.documentElement.append(script);
      });
    }

    tell(target, data) {
      const message = new MessageEvent("message", { data });
      target.dispatchEvent(message);
      if (target === this && this.onmessage) this.onmessage(message);
    }

    postMessage(data) {
      if (this.isReady) this.tell(this.inside, data);
      else this.waiting.push(data);
    }
  };
}
