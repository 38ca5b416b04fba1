// Mouse wheel, drag, touch and pinch on the picture, as movements of what is visible.

export interface Gestures {
  /** `factor` < 1 comes nearer; what is at `x` stays there. */
  zoom(factor: number, x: number): void;
  pan(dx: number, dy: number): void;
  tap(x: number, y: number): void;
  doubleTap(x: number, y: number): void;
  hover(x: number, y: number): void;
  leave(): void;
  /** The wheel was turned, but it scrolls the page. */
  refuseWheel(): void;
  /** Does the wheel zoom without a key? */
  readonly takesWheel: () => boolean;
}

/** A pointer that moves less was a tap. */
const tapPixels = 4;
const wheelStep = 1.0018;
const maxWheelPixels = 240;

interface Point {
  x: number;
  y: number;
}

export function listenForGestures(canvas: HTMLElement, gestures: Gestures): void {
  const pointers = new Map<number, Point>();
  let movedBy = 0;
  const at = (event: MouseEvent): Point => {
    const { left, top } = canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    movedBy = pointers.size > 1 ? Number.POSITIVE_INFINITY : 0;
    gestures.leave();
  });
  canvas.addEventListener('pointermove', (event) => {
    const last = pointers.get(event.pointerId);
    const now = at(event);
    if (last === undefined) {
      if (event.pointerType !== 'touch') gestures.hover(now.x, now.y);
      return;
    }
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other !== undefined) {
      const before = Math.max(20, Math.hypot(last.x - other.x, last.y - other.y));
      const after = Math.max(20, Math.hypot(now.x - other.x, now.y - other.y));
      gestures.zoom(before / after, (now.x + other.x) / 2);
      gestures.pan((now.x - last.x) / 2, (now.y - last.y) / 2);
    } else {
      movedBy += Math.hypot(now.x - last.x, now.y - last.y);
      if (movedBy >= tapPixels) gestures.pan(now.x - last.x, now.y - last.y);
    }
    pointers.set(event.pointerId, now);
  });
  canvas.addEventListener('pointerup', (event) => {
    const isTap = pointers.delete(event.pointerId) && movedBy < tapPixels;
    if (!isTap) return;
    const { x, y } = at(event);
    gestures.tap(x, y);
  });
  canvas.addEventListener('pointercancel', (event) => pointers.delete(event.pointerId));
  canvas.addEventListener('pointerleave', () => gestures.leave());
  canvas.addEventListener('dblclick', (event) => {
    const { x, y } = at(event);
    gestures.doubleTap(x, y);
  });
  canvas.addEventListener(
    'wheel',
    (event) => {
      const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 20 : event.deltaMode === 0 ? 1 : 400;
      const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
      const isSideways = event.shiftKey || Math.abs(dx) > Math.abs(dy);
      if (!isSideways && !event.ctrlKey && !event.metaKey && !gestures.takesWheel()) {
        gestures.refuseWheel();
        return;
      }
      event.preventDefault();
      gestures.leave();
      if (isSideways) gestures.pan(-(Math.abs(dx) > Math.abs(dy) ? dx : dy), 0);
      else if (event.altKey) gestures.pan(0, -dy);
      // Browsers give a pinch on a touchpad as small turns of the wheel with Ctrl.
      else {
        const turned =
          Math.max(-maxWheelPixels, Math.min(maxWheelPixels, dy)) *
          (event.ctrlKey && Math.abs(dy) < 30 ? 4 : 1);
        gestures.zoom(wheelStep ** turned, at(event).x);
      }
    },
    { passive: false },
  );
}
