// Browsers start no worker for a page that was opened from a disk: there the search runs in a hidden frame of the page.
// The theme looks for the name IFrameWorker, and takes the first script of the frame for the worker.
class IFrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);
    this.inside = this.frame.contentWindow;
    const load = (source) => new Promise((loaded, failed) => {
      const script = this.inside.document.createElement("script");
      script.src = new URL(source, document.baseURI);
      script.onload = loaded;
      script.onerror = failed;
      this.inside.document.head.append(script);
    });
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.inside.importScripts = (...sources) => sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
    this.ready = load(url);
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = IFrameWorker;
}
