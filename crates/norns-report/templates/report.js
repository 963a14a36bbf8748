'use strict';
// An enhancement only: selecting a step marks the same step in the other panel.
document.addEventListener('click', function (click) {
  var step = click.target.closest('[data-event]');
  if (!step) return;
  var finding = step.closest('[data-finding]');
  document.querySelectorAll('.on').forEach(function (other) { other.classList.remove('on'); });
  finding.querySelectorAll('[data-event="' + step.dataset.event + '"]').forEach(function (twin) {
    twin.classList.add('on');
  });
});
